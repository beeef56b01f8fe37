-- due_next: microseconds until the next attempt in route ?, of ? shards the one of index ?, that is
-- not due yet.
-- Concurrency: reads. Index: posthaste_parked_due (its first entry after now that is of the shard).
SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), next_attempt_at)
FROM posthaste_parked
WHERE route = ?
    AND next_attempt_at > UTC_TIMESTAMP(6)
    AND bucket MOD ? = ?
ORDER BY next_attempt_at
LIMIT 1
