-- due_next: microseconds until the next planned attempt of shard `:index` of `:of` of route `:route`.
-- Concurrency: reads. Index: parked_due.
SELECT (extract(epoch FROM next_attempt_at - clock_timestamp()) * 1000000)::int8
FROM posthaste.parked
WHERE route = :route
    AND state = 'retrying'
    AND next_attempt_at > clock_timestamp()
    AND bucket % :of = :index
ORDER BY next_attempt_at
LIMIT 1
