-- due: for each key of a shard whose first parked message is due, it and what waits behind it, up
-- to a dead letter that blocks the key. $1 route, $2 shards, $3 this shard, $4 messages in all.
-- Concurrency: reads; whoever tries them settles under the fence. Index: parked_due, parked_key.
WITH heads AS MATERIALIZED (
    SELECT p.seq, p.key, p.next_attempt_at
    FROM posthaste.parked AS p
    WHERE p.route = $1
        AND p.state = 'retrying'
        AND p.next_attempt_at IS NOT NULL
        AND p.next_attempt_at <= clock_timestamp()
        AND p.bucket % $2::int = $3::int
        AND NOT EXISTS (
            SELECT
            FROM posthaste.parked AS before
            WHERE before.route = p.route
                AND before.key = p.key
                AND before.seq < p.seq
                AND (before.state = 'retrying' OR before.blocks)
        )
    ORDER BY p.next_attempt_at, p.seq
    LIMIT $4
)
SELECT
    q.seq,
    q.id,
    q.topic,
    q.key,
    q.type,
    q.payload,
    NULL::int,
    q.headers::text,
    q.content_type,
    date_part('epoch', clock_timestamp() - q.created_at),
    q.attempts,
    q.unknowns,
    q.redriven
FROM heads
CROSS JOIN LATERAL (
    SELECT queued.*
    FROM posthaste.parked AS queued
    WHERE queued.route = $1
        AND queued.seq = heads.seq
    UNION ALL (
        SELECT queued.*
        FROM posthaste.parked AS queued
        WHERE queued.route = $1
            AND queued.key = heads.key
            AND queued.seq > heads.seq
            AND queued.state = 'retrying'
            AND NOT EXISTS (
                SELECT
                FROM posthaste.parked AS wall
                WHERE wall.route = $1
                    AND wall.key = heads.key
                    AND wall.seq BETWEEN heads.seq AND queued.seq
                    AND wall.blocks
            )
        ORDER BY queued.seq
        LIMIT $4
    )
) AS q
ORDER BY heads.next_attempt_at, heads.seq, q.seq
LIMIT $4
