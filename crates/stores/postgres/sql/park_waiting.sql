-- park_waiting: puts aside, for a route, the rows of the log that its new topics match, that no
-- route's topics matched until now (its own old ones, still written, included), and that the
-- position of their shard covers. promote_waiting plans the attempts of those with a key.
--
-- $1 route; $2 its new topics as LIKE patterns; $3 shards, $4 seqs and $5 snapshots of the steps of
-- all its shards' positions; $6 how many shards it has.
--
-- Concurrency: with route and leases locked, so nobody else parks for the route or passes more.
-- Index: none, reads the log once, up to the highest position.
WITH steps AS MATERIALIZED (
    SELECT step.shard, step.seq, step.snap
    FROM unnest($3::int[], $4::int8[], $5::text[]::pg_snapshot[]) AS step (shard, seq, snap)
)
INSERT INTO posthaste.parked (
    route, seq, bucket, id, topic, key, type, payload, headers, content_type, created_at,
    state, next_attempt_at
)
SELECT
    $1, o.seq, o.bucket, o.id, o.topic, o.key, o.type, o.payload, o.headers, o.content_type,
    o.created_at,
    'retrying', CASE WHEN o.key IS NULL THEN clock_timestamp() END
FROM (
    SELECT
        xid, seq, id, topic, key, type,
        coalesce(payload_binary, convert_to(payload, 'UTF8')) AS payload,
        headers, content_type, created_at,
        CASE
            WHEN key IS NULL THEN (seq % 65536)::int
            ELSE ('x' || left(md5(key), 4))::bit(16)::int
        END AS bucket
    FROM posthaste.outbox
    WHERE seq <= (SELECT max(seq) FROM steps)
        AND topic LIKE ANY ($2::text[])
        AND NOT topic LIKE ANY (ARRAY(SELECT unnest(likes) FROM posthaste.route))
) AS o
WHERE pg_visible_in_snapshot(
    o.xid,
    (
        SELECT step.snap
        FROM steps AS step
        WHERE step.shard = o.bucket % $6::int AND o.seq <= step.seq
        ORDER BY step.seq
        LIMIT 1
    )
)
ON CONFLICT (route, seq) DO NOTHING
