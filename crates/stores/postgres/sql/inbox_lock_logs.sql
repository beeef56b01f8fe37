-- inbox_lock_logs: one at a time decides which log of source `:source` is the first of consumer
-- `:consumer`.
-- Concurrency: an advisory lock until the transaction ends; rare. Index: none.
SELECT pg_advisory_xact_lock(
    hashtextextended('posthaste inbox log ' || :consumer || ' ' || :source, 0)
)
