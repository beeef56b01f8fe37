-- examine_engines: tables of the outbox that no transaction protects.
-- Concurrency: reads. Index: the catalogue's.
SELECT TABLE_NAME
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE()
    AND LOCATE('posthaste_', TABLE_NAME) = 1
    AND ENGINE <> 'InnoDB'
