-- purge_hold_log: the lock that removing rows of the log takes anyway, before any other: whoever
-- waits for it holds nothing yet.
-- Concurrency: no INSERT waits for it; waits for a lock on the whole table. Index: none.
LOCK TABLE posthaste.outbox IN ROW EXCLUSIVE MODE
