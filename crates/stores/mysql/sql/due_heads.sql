-- due_heads: messages of route ?, of ? shards the one of index ?, whose time has come and that
-- nothing is before; ? at most.
-- Concurrency: reads; whoever tries them settles behind the fence. Index: posthaste_parked_due.
SELECT
    head.seq,
    head.payload_bytes,
    head.`key`
FROM posthaste_parked AS head
WHERE head.route = ?
    AND head.next_attempt_at <= UTC_TIMESTAMP(6)
    AND head.bucket MOD ? = ?
    AND NOT EXISTS (
        SELECT 1
        FROM posthaste_parked AS held
        WHERE held.route = head.route
            AND held.held_key = head.`key`
            AND held.seq < head.seq)
ORDER BY head.next_attempt_at, head.seq
LIMIT ?
