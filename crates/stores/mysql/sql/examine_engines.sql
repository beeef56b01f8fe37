-- examine_engines: tables of ours that no transaction protects.
-- Concurrency: reads. Index: the catalogue's.
SELECT TABLE_NAME
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME LIKE 'posthaste\\_%'
    AND ENGINE <> 'InnoDB'
