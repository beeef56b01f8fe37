-- begin: a transaction that carries a mark, so that commit can tell whether it is still there. Without
-- autocommit, what follows a transaction that the server rolled back is not kept by itself.
-- Concurrency: none. Index: none.
SET @posthaste_autocommit = @@autocommit, autocommit = 0;
START TRANSACTION;
SAVEPOINT posthaste_transaction
