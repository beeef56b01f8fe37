-- blocked_keys: keys of a shard that something parked holds back. $2 shards, $3 this shard.
-- Concurrency: reads; complete once the lease is taken. Index: parked_key.
SELECT DISTINCT key
FROM posthaste.parked
WHERE route = $1
    AND key IS NOT NULL
    AND (state = 'retrying' OR blocks)
    AND bucket % $2::int = $3::int
