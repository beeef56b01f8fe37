-- rollback: ends the transaction that begin_empty.sql began.
-- Concurrency: none. Index: none.
ROLLBACK
