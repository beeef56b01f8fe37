-- read_head: a position that covers everything committed now, and nothing else.
-- Concurrency: reads; one statement, so both are of one snapshot. Index: outbox_pkey, backwards.
SELECT coalesce(max(seq), 0), pg_current_snapshot()::text
FROM posthaste.outbox
