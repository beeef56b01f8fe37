-- undelivered: the first parked messages of a shard that may still come. $2 shards, $3 this shard,
-- $4 how many.
-- Concurrency: reads; complete where nobody else settles for the shard.
-- Index: parked_undelivered.
SELECT seq
FROM posthaste.parked
WHERE route = $1
    AND state <> 'discarded'
    AND bucket % $2::int = $3::int
ORDER BY seq
LIMIT $4
