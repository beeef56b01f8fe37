-- find_migration: whether the table of migrations is there. By a query, not by to_regclass: that answers
-- from the session's cache, which may be older than a migration that was waited for (migrate_lock).
-- Concurrency: reads. Index: the catalogue's.
SELECT EXISTS (
    SELECT
    FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_namespace.nspname = 'posthaste' AND pg_class.relname = 'migration'
)
