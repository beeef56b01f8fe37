-- adopt_rows: makes every row's transaction one that all snapshots see.
-- Concurrency: under adopt_lock. Index: none, writes the whole log.
UPDATE posthaste.outbox
SET xid = '3'
WHERE xid <> '3'::xid8
