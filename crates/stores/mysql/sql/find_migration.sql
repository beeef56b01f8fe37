-- find_migration: whether the table of applied migrations is there.
-- Concurrency: reads. Index: the catalogue's.
SELECT COUNT(*)
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'posthaste_migration'
