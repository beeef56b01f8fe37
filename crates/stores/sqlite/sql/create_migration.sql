-- create_migration: the table of applied migrations; named so that it cannot meet the user's own.
-- Concurrency: inside the migration's transaction, which is the only writer. Index: none.
CREATE TABLE IF NOT EXISTS posthaste_migration (
    version INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at REAL NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3))
) STRICT
