-- endless_patience: a change of the tables waits for locks as long as the session's own setting says, by
-- default without end.
-- Concurrency: none. Index: none.
SET LOCAL lock_timeout TO DEFAULT
