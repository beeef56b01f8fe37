-- record_migration: writes down that migration :number (name :name) was applied.
-- Concurrency: with lock_migration held. Index: primary key.
INSERT INTO posthaste_migration (number, name)
VALUES (:number, :name)
