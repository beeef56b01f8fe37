-- record_migration: notes that migration `:number`, called `:name`, has run.
-- Concurrency: under migrate_lock. Index: migration_pkey.
INSERT INTO posthaste.migration (number, name)
VALUES (:number, :name)
