-- due: for each key of shard `:index` of `:of` of route `:route` whose first parked message is due, that
-- message and those that wait behind it, up to a dead letter that blocks the key: seq and bytes of the
-- payload, `:limit` messages in all. due_messages loads them.
-- Concurrency: reads; whoever tries them settles under the fence. Index: parked_due, parked_key.
WITH heads AS MATERIALIZED (
    SELECT p.seq, p.key, p.next_attempt_at
    FROM posthaste.parked AS p
    WHERE p.route = :route
        AND p.state = 'retrying'
        AND p.next_attempt_at IS NOT NULL
        AND p.next_attempt_at <= clock_timestamp()
        AND p.bucket % :of = :index
        AND NOT EXISTS (
            SELECT
            FROM posthaste.parked AS before
            WHERE before.route = p.route
                AND before.key = p.key
                AND before.seq < p.seq
                AND (before.state = 'retrying' OR before.blocks)
        )
    ORDER BY p.next_attempt_at, p.seq
    LIMIT :limit
)
SELECT q.seq, q.bytes
FROM heads
CROSS JOIN LATERAL (
    SELECT head.seq, octet_length(head.payload) AS bytes
    FROM posthaste.parked AS head
    WHERE head.route = :route
        AND head.seq = heads.seq
    UNION ALL (
        SELECT follower.seq, octet_length(follower.payload)
        FROM posthaste.parked AS follower
        WHERE follower.route = :route
            AND follower.key = heads.key
            AND follower.seq > heads.seq
            AND follower.state = 'retrying'
            AND NOT EXISTS (
                SELECT
                FROM posthaste.parked AS wall
                WHERE wall.route = :route
                    AND wall.key = heads.key
                    AND wall.seq BETWEEN heads.seq AND follower.seq
                    AND wall.blocks
            )
        ORDER BY follower.seq
        LIMIT :limit
    )
) AS q
ORDER BY heads.next_attempt_at, heads.seq, q.seq
LIMIT :limit
