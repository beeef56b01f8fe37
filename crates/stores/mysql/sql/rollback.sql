-- rollback: ends the transaction that begin.sql began, or whatever took its place.
-- Concurrency: none. Index: none.
ROLLBACK;
SET autocommit = @posthaste_autocommit
