-- due_next: time until the next attempt in route :route, of :of shards the one of index :index, that is
-- not due yet.
-- Concurrency: reads. Index: posthaste_parked_due (its first entry after now that is of the shard).
SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), next_attempt_at)
FROM posthaste_parked
WHERE route = :route
    AND next_attempt_at > UTC_TIMESTAMP(6)
    AND bucket MOD :of = :index
ORDER BY next_attempt_at
LIMIT 1
