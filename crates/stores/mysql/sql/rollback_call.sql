-- rollback_call: rolls back the transaction of a call of the store.
-- Concurrency: none. Index: none.
ROLLBACK
