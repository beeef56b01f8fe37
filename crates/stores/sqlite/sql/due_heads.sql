-- due_heads: messages of a shard (?2 of ?3) whose time has come and that nothing is before, ?4 at
-- most.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_due (range).
SELECT
    head.seq,
    head.key
FROM posthaste_parked AS head
WHERE head.route = ?1
    AND head.next_attempt_at <= unixepoch('subsec')
    AND head.bucket % ?3 = ?2
    AND NOT EXISTS (
        SELECT 1
        FROM posthaste_parked AS held
        WHERE held.route = ?1
            AND held.key = head.key
            AND held.key IS NOT NULL
            AND (held.state = 'retrying' OR held.blocks = 1)
            AND held.seq < head.seq)
ORDER BY head.next_attempt_at, head.seq
LIMIT ?4
