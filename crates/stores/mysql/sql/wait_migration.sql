-- wait_migration: the connection that holds the migrations' lock, or waits for it, is patient.
-- Concurrency: none. Index: none.
SET
    /*M! SESSION idle_transaction_timeout = 0, */
    SESSION innodb_lock_wait_timeout = 3600,
    SESSION wait_timeout = 3600
