-- record_migration: writes down that migration ? (name ?) was applied.
-- Concurrency: with lock_migration held. Index: primary key.
INSERT INTO posthaste_migration (number, name)
VALUES (?, ?)
