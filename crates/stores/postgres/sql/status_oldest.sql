-- status_oldest: the next `:limit` rows of the log behind seq `:after`: seq, topic, key, and age in
-- microseconds.
-- Concurrency: reads. Index: outbox_pkey (range).
SELECT
    seq,
    topic,
    key,
    (extract(epoch FROM clock_timestamp() - created_at) * 1000000)::int8
FROM posthaste.outbox
WHERE seq > :after
ORDER BY seq
LIMIT :limit
