-- commit_call: commits the transaction of a call of the store.
-- Concurrency: none. Index: none.
COMMIT
