-- due_next: seconds until the next attempt of a shard (?2 of ?3) that is not due yet.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_due (its first entry
-- after now that is of the shard).
SELECT next_attempt_at - unixepoch('subsec')
FROM posthaste_parked
WHERE route = ?1
    AND next_attempt_at > unixepoch('subsec')
    AND bucket % ?3 = ?2
ORDER BY next_attempt_at
LIMIT 1
