-- blocked_keys: keys that something parked holds back: of the next $5 parked messages of route $1 behind key
-- $4, in the order of keys, each key, whether it is of the shard ($2 shards, $3 this one), and how many
-- messages of it there were.
-- Concurrency: reads; complete once the lease is taken. Index: parked_key, in order.
SELECT held.key, min(held.bucket) % $2::int = $3::int, count(*)
FROM (
    SELECT key, bucket
    FROM posthaste.parked
    WHERE route = $1
        AND key > $4
        AND (state = 'retrying' OR blocks)
    ORDER BY key, seq
    LIMIT $5
) AS held
GROUP BY held.key
ORDER BY held.key
