-- blocked_keys: keys that a parked message holds back: of the next :limit parked messages behind key
-- :after, in the order of keys, each key, whether it belongs to the shard (:index of :of), and how many
-- messages of it there were.
-- Concurrency: reads a snapshot; complete once the lease is taken. Index: posthaste_parked_key, in order.
SELECT
    held.key,
    min(held.bucket) % :of = :index,
    count(*)
FROM (
    SELECT
        key,
        bucket
    FROM posthaste_parked
    WHERE route = :route
        AND key IS NOT NULL
        AND key > :after
        AND (state = 'retrying' OR blocks = 1)
    ORDER BY key, seq
    LIMIT :limit) AS held
GROUP BY held.key
ORDER BY held.key
