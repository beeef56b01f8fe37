-- find_migration: whether the table of applied migrations is there.
-- Concurrency: reads a snapshot, waits for nobody. Index: none (the schema is in memory).
SELECT count(*)
FROM sqlite_schema
WHERE type = 'table' AND name = 'posthaste_migration'
