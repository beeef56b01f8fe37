-- due_next: seconds until the next planned attempt of a shard. $1 route, $2 shards, $3 this shard.
-- Concurrency: reads. Index: parked_due.
SELECT date_part('epoch', next_attempt_at - clock_timestamp())
FROM posthaste.parked
WHERE route = $1
    AND state = 'retrying'
    AND next_attempt_at > clock_timestamp()
    AND bucket % $2::int = $3::int
ORDER BY next_attempt_at
LIMIT 1
