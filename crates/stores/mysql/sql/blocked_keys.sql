-- blocked_keys: keys of route :route that a parked message holds back. Looks at the next :limit parked
-- messages behind key :after, in the order of keys; tells each key, whether it belongs to the shard (of
-- :of shards the one of index :index), and how many of the messages have it.
-- Concurrency: reads; complete once the lease is taken. Index: posthaste_parked_held, in order.
SELECT
    held.held_key,
    MIN(held.bucket) MOD :of = :index,
    COUNT(*)
FROM (
    SELECT
        held_key,
        bucket
    FROM posthaste_parked FORCE INDEX (posthaste_parked_held)
    WHERE route = :route AND held_key > :after
    ORDER BY held_key, seq
    LIMIT :limit
) AS held
GROUP BY held.held_key
ORDER BY held.held_key
