-- adopt_lock: keeps writers out while the log is rewritten; waits for those that are open.
-- Concurrency: blocks INSERTs into the outbox until the transaction ends. Index: none.
LOCK TABLE posthaste.outbox IN SHARE ROW EXCLUSIVE MODE
