-- migrate_lock: one migration at a time; the number is fixed and means nothing.
-- Concurrency: waits for another migration; let go when the transaction ends. Index: none.
SELECT pg_advisory_xact_lock(5791024680135)
