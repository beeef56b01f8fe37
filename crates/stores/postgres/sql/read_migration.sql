-- read_migration: the number of the latest migration; 0 for none.
-- Concurrency: reads. Index: migration_pkey, backwards.
SELECT coalesce(max(number), 0)
FROM posthaste.migration
