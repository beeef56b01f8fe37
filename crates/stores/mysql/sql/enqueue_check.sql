-- enqueue_check: fails (1305) outside a transaction, where a savepoint ends with its own statement. The
-- driver cannot tell: after a deadlock it still counts a transaction that the server rolled back.
-- Concurrency: none. Index: none.
SAVEPOINT posthaste_enqueue;
RELEASE SAVEPOINT posthaste_enqueue
