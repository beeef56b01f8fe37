-- read_migration: the newest migration that was applied, 0 where there is none.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key.
SELECT coalesce(max(version), 0)
FROM posthaste_migration
