-- lock_tables: lets one process at a time create tables; the lock ends with the transaction.
-- The number is arbitrary and this service's own.
SELECT pg_advisory_xact_lock(7700018889);
