-- inbox_lock_logs: one at a time decides which log of source $2 is the first of consumer $1.
-- Concurrency: an advisory lock until the transaction ends; rare. Index: none.
SELECT pg_advisory_xact_lock(hashtextextended('posthaste inbox log ' || $1 || ' ' || $2, 0))
