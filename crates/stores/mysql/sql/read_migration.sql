-- read_migration: the number of the newest migration that was applied, 0 where there is none.
-- Concurrency: reads. Index: primary key.
SELECT CAST(COALESCE(MAX(number), 0) AS SIGNED)
FROM posthaste_migration
