-- commit: commits the transaction that begin.sql began. In any other the savepoint does not exist
-- (1305): the server deletes it together with the transaction. Then nothing is committed.
-- Concurrency: none. Index: none.
RELEASE SAVEPOINT posthaste_transaction;
COMMIT;
SET autocommit = @posthaste_autocommit
