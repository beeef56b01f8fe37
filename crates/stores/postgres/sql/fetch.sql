-- fetch: the next rows a position does not cover: late commits first, then what lies ahead, by seq.
-- For an unsharded route of every topic, the usual one; fetch_some is for the others. Two
-- statements, because planning the filters would take a quarter of this one's time.
--
-- $1 seqs and $2 snapshots of the position's steps; $3 its highest seq; $4 rows to look at;
-- $5 payloads above this many bytes come back empty; $6 route.
--
-- One row (the one with a snapshot) is the header: what this statement sees, its time, whether the
-- route takes every topic (NULL: there is no such route), and the shard's epoch (NULL: there is no
-- such shard). All others are messages.
--
-- Concurrency: takes no lock, waits for nobody; one statement, so one snapshot.
-- Index: outbox_xid for late rows, outbox_pkey for the rest (a test asserts the plan). `seq + 0`
-- keeps the planner from reading the whole log by its primary key in search of late rows; the
-- range on xid has two sides so that the default estimate of its size is small.
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
            AND xid < pg_snapshot_xmax(pg_current_snapshot())
            AND seq + 0 <= $3
    ) AS o
    WHERE NOT pg_visible_in_snapshot(
            o.xid,
            (SELECT step.snap FROM steps AS step WHERE o.seq <= step.seq ORDER BY step.seq LIMIT 1)
        )
    ORDER BY o.seq
    LIMIT $4
),
ahead AS MATERIALIZED (
    SELECT $4 - count(*) AS room
    FROM late
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
    (SELECT '%' = ANY (likes) FROM posthaste.route WHERE name = $6) AS takes_all,
    NULL::int8[] AS scanned,
    (SELECT epoch FROM posthaste.lease WHERE route = $6 AND shard = 0) AS epoch
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
    FROM posthaste.outbox
    WHERE seq > $3
    ORDER BY seq
    LIMIT (SELECT room FROM ahead)
)
