-- read_head: the highest seq that is committed now.
-- Concurrency: reads. Index: outbox_pkey, backwards.
SELECT coalesce(max(seq), 0)
FROM posthaste.outbox
