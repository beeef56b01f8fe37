-- find_migration: whether the table of migrations is there.
-- Concurrency: reads. Index: the catalogue's.
SELECT to_regclass('posthaste.migration') IS NOT NULL
