-- blocked_keys: keys that a parked message holds back: of the next `:limit` parked messages of route
-- `:route` behind key `:after`, in the order of keys, each key, whether it belongs to the shard (`:index`
-- of `:of`), and how many messages of it there were.
-- Concurrency: reads; complete once the lease is taken. Index: parked_key, in order.
SELECT
    held.key,
    min(held.bucket) % :of = :index,
    count(*)
FROM (
    SELECT key, bucket
    FROM posthaste.parked
    WHERE route = :route
        AND key > :after
        AND (state = 'retrying' OR blocks)
    ORDER BY key, seq
    LIMIT :limit
) AS held
GROUP BY held.key
ORDER BY held.key
