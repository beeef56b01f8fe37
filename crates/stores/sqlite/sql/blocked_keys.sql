-- blocked_keys: keys that a parked message holds back: of the next :limit parked messages behind key
-- :after, in the order of keys, each key, whether it belongs to the shard (:index of :of), and how many
-- messages of it there were.
-- Concurrency: reads a snapshot; complete once the lease is taken. Index: posthaste_parked_key, in order.
SELECT
    page.key,
    min(page.bucket) % :of = :index,
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
    LIMIT :limit) AS page
GROUP BY page.key
ORDER BY page.key
