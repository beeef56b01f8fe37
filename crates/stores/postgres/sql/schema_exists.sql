-- schema_exists: whether the tables are there at all.
-- Concurrency: reads. Index: the catalogue's.
SELECT to_regclass('posthaste.migration') IS NOT NULL
