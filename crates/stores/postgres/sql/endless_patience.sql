-- endless_patience: a change of the tables waits for locks as long as it takes.
-- Concurrency: none. Index: none.
SET LOCAL lock_timeout = 0
