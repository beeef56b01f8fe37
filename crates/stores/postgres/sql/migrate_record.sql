-- migrate_record: notes that a migration has run.
-- Concurrency: under migrate_lock. Index: migration_pkey.
INSERT INTO posthaste.migration (number, name)
VALUES ($1, $2)
