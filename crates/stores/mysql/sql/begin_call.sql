-- begin_call: begins the transaction of a call of the store.
-- Concurrency: none. Index: none.
START TRANSACTION
