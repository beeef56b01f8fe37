-- record_migration: writes down that a migration was applied.
-- Concurrency: inside the migration's transaction. Index: primary key.
INSERT INTO posthaste_migration (version, name)
VALUES (:number, :name)
