-- check_write: writes nothing, but only where writing is possible. (BEGIN IMMEDIATE alone succeeds on
-- a file that is read-only.)
-- Concurrency: waits for the one writer before it. Index: primary key.
DELETE FROM posthaste_relay
WHERE id = ''
