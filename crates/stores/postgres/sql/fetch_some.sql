-- fetch_some: as fetch, for a shard of several, a route of some topics, or up to a barrier: the
-- next rows a position does not cover, of which only those of the shard come back.
--
-- $1 seqs and $2 snapshots of the position's steps; $3 its highest seq; $4 rows to look at;
-- $5 payloads above this many bytes come back empty; $6 route; $7 shards and $8 this shard;
-- $9 seq and $10 snapshot of the position to stop at, if any.
--
-- Rows are first looked at, then filtered, so that a route of rare topics advances at the speed of
-- a scan. The header also says how many rows were looked at, and the last of them.
--
-- Concurrency and indexes as for fetch.
WITH steps AS MATERIALIZED (
    SELECT step.seq, step.snap
    FROM unnest($1::int8[], $2::text[]::pg_snapshot[]) AS step (seq, snap)
),
late AS MATERIALIZED (
    SELECT DISTINCT o.seq
    FROM (
        SELECT seq, xid
        FROM posthaste.outbox
        WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip(snap) FROM steps))
            AND seq + 0 <= $3
        UNION ALL
        SELECT seq, xid
        FROM posthaste.outbox
        WHERE xid >= (SELECT pg_snapshot_xmax(snap) FROM steps ORDER BY 1 LIMIT 1)
            AND xid < coalesce(
                pg_snapshot_xmax($10::text::pg_snapshot),
                pg_snapshot_xmax(pg_current_snapshot())
            )
            AND seq + 0 <= $3
    ) AS o
    WHERE NOT pg_visible_in_snapshot(
            o.xid,
            (SELECT step.snap FROM steps AS step WHERE o.seq <= step.seq ORDER BY step.seq LIMIT 1)
        )
        -- Rows that the stop does not cover are no page's business: they would come again and
        -- again.
        AND ($10::text IS NULL
            OR (o.seq <= $9 AND pg_visible_in_snapshot(o.xid, $10::text::pg_snapshot)))
    ORDER BY o.seq
    LIMIT $4
),
ahead AS MATERIALIZED (
    SELECT $4 - count(*) AS room
    FROM late
),
wanted AS MATERIALIZED (
    SELECT likes
    FROM posthaste.route
    WHERE name = $6
)
SELECT
    NULL::int8 AS seq,
    NULL::uuid AS id,
    NULL::text AS topic,
    NULL::text AS key,
    NULL::text AS type,
    NULL::bytea AS payload,
    NULL::int AS payload_bytes,
    NULL::text AS headers,
    NULL::text AS content_type,
    clock_timestamp() AS time,
    pg_current_snapshot()::text AS snapshot,
    (SELECT '%' = ANY (likes) FROM wanted) AS takes_all,
    (
        SELECT ARRAY[count(*), max(seq)]
        FROM (
            SELECT seq
            FROM late
            UNION ALL (
                SELECT seq
                FROM posthaste.outbox
                WHERE seq > $3 AND seq <= coalesce($9, 9223372036854775807)
                ORDER BY seq
                LIMIT (SELECT room FROM ahead)
            )
        ) AS o
    ) AS scanned,
    (SELECT epoch FROM posthaste.lease WHERE route = $6 AND shard = $8::int) AS epoch
UNION ALL (
    SELECT
        seq, id, topic, key, type,
        CASE WHEN octet_length(payload) <= $5 THEN payload END,
        CASE WHEN octet_length(payload) > $5 THEN octet_length(payload) END,
        headers::text, content_type,
        created_at,
        NULL, NULL, NULL, NULL
    FROM posthaste.outbox
    WHERE seq = ANY (ARRAY(SELECT seq FROM late))
        AND topic LIKE ANY ((SELECT likes FROM wanted)::text[])
        AND ($7::int = 1 OR CASE
            WHEN key IS NULL THEN seq % 65536
            ELSE ('x' || left(md5(key), 4))::bit(16)::int
        END % $7::int = $8::int)
    ORDER BY seq
)
UNION ALL (
    SELECT
        seq, id, topic, key, type,
        CASE WHEN octet_length(payload) <= $5 THEN payload END,
        CASE WHEN octet_length(payload) > $5 THEN octet_length(payload) END,
        headers::text, content_type,
        created_at,
        NULL, NULL, NULL, NULL
    FROM (
        SELECT xid, seq, id, topic, key, type, payload, headers, content_type, created_at
        FROM posthaste.outbox
        WHERE seq > $3 AND seq <= coalesce($9, 9223372036854775807)
        ORDER BY seq
        LIMIT (SELECT room FROM ahead)
    ) AS o
    WHERE topic LIKE ANY ((SELECT likes FROM wanted)::text[])
        AND ($7::int = 1 OR CASE
            WHEN key IS NULL THEN seq % 65536
            ELSE ('x' || left(md5(key), 4))::bit(16)::int
        END % $7::int = $8::int)
        AND ($10::text IS NULL OR pg_visible_in_snapshot(xid, $10::text::pg_snapshot))
)
