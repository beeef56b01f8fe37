-- due_heads: messages of a shard (:index of :of) whose time has come and that nothing is before, :limit at
-- most.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_due (range).
SELECT
    head.seq,
    octet_length(head.payload),
    head.key
FROM posthaste_parked AS head
WHERE head.route = :route
    AND head.next_attempt_at <= unixepoch('subsec')
    AND head.bucket % :of = :index
    AND NOT EXISTS (
        SELECT 1
        FROM posthaste_parked AS held
        WHERE held.route = :route
            AND held.key = head.key
            AND held.key IS NOT NULL
            AND (held.state = 'retrying' OR held.blocks = 1)
            AND held.seq < head.seq)
ORDER BY head.next_attempt_at, head.seq
LIMIT :limit
