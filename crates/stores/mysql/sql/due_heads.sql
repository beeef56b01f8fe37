-- due_heads: messages of route :route, of :of shards the one of index :index, whose time has come and
-- that are the first of their key; :limit at most.
-- Concurrency: reads; whoever tries them settles behind the fence. Index: posthaste_parked_due.
SELECT
    head.seq,
    head.payload_bytes,
    head.`key`
FROM posthaste_parked AS head
WHERE head.route = :route
    AND head.next_attempt_at <= UTC_TIMESTAMP(6)
    AND head.bucket MOD :of = :index
    AND NOT EXISTS (
        SELECT 1
        FROM posthaste_parked AS held
        WHERE held.route = head.route
            AND held.held_key = head.`key`
            AND held.seq < head.seq)
ORDER BY head.next_attempt_at, head.seq
LIMIT :limit
