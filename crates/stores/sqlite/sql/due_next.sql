-- due_next: time until the next attempt of a shard (:index of :of) that is not due yet.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_due (its first entry
-- after now that is of the shard).
SELECT CAST((next_attempt_at - unixepoch('subsec')) * 1000000 AS INTEGER)
FROM posthaste_parked
WHERE route = :route
    AND next_attempt_at > unixepoch('subsec')
    AND bucket % :of = :index
ORDER BY next_attempt_at
LIMIT 1
