-- read_snapshot: what is committed now.
-- Concurrency: reads. Index: none.
SELECT pg_current_snapshot()::text
