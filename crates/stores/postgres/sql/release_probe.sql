-- release_probe: whether the session is inside a transaction that the driver may not know of: the
-- start of one lies before that of any later statement in it.
-- Concurrency: none. Index: none.
SELECT transaction_timestamp() < statement_timestamp()
