-- due: for each key of a shard whose first parked message is due, it and what waits behind it, up
-- to a dead letter that blocks the key. $1 route, $2 shards, $3 this shard, $4 messages in all,
-- $5 payload bytes in all (the first message comes whatever its size).
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
),
queued AS MATERIALIZED (
    SELECT
        q.seq,
        row_number() OVER turn AS place,
        sum(q.bytes) OVER turn AS bytes
    FROM heads
    CROSS JOIN LATERAL (
        SELECT head.seq, octet_length(head.payload) AS bytes
        FROM posthaste.parked AS head
        WHERE head.route = $1
            AND head.seq = heads.seq
        UNION ALL (
            SELECT follower.seq, octet_length(follower.payload)
            FROM posthaste.parked AS follower
            WHERE follower.route = $1
                AND follower.key = heads.key
                AND follower.seq > heads.seq
                AND follower.state = 'retrying'
                AND NOT EXISTS (
                    SELECT
                    FROM posthaste.parked AS wall
                    WHERE wall.route = $1
                        AND wall.key = heads.key
                        AND wall.seq BETWEEN heads.seq AND follower.seq
                        AND wall.blocks
                )
            ORDER BY follower.seq
            LIMIT $4
        )
    ) AS q
    WINDOW turn AS (ORDER BY heads.next_attempt_at, heads.seq, q.seq)
)
SELECT
    p.seq,
    p.id,
    p.topic,
    p.key,
    p.type,
    p.payload,
    NULL::int,
    p.headers::text,
    p.content_type,
    date_part('epoch', clock_timestamp() - p.created_at),
    p.attempts,
    p.unknowns,
    p.redriven,
    p.created_at
FROM queued
JOIN posthaste.parked AS p ON p.route = $1 AND p.seq = queued.seq
WHERE queued.place <= $4
    AND (queued.place = 1 OR queued.bytes <= $5)
ORDER BY queued.place
