-- fetch_some: as fetch, for a shard of several, a route of some topics, or up to a barrier: the
-- next rows that a position does not cover, of which only those of the shard come back.
--
-- `:seqs` and `:snapshots` of the position's steps; `:after` its highest seq; `:limit` rows to look at;
-- payloads above `:small` bytes come back empty; `:route`, of `:of` shards the one with number `:index`;
-- `:until_seq` and `:until_snapshot` of the barrier, if any; `:witness` a seq whose message is known.
--
-- Rows are first looked at, then filtered, so that a route of rare topics advances at the speed of
-- a scan. The header also says how many rows were looked at, and the last of them.
--
-- Concurrency and indexes as for fetch.
WITH steps AS MATERIALIZED (
    SELECT
        step.after,
        step.seq,
        step.snap,
        pg_visible_in_snapshot(
            (pg_snapshot_xmax(step.snap)::text::int8 - 1)::text::xid8,
            step.snap
        ) AS is_plain
    FROM unnest(
        array_prepend(0::int8, :seqs::int8[]), :seqs::int8[], :snapshots::text[]::pg_snapshot[]
    ) AS step (after, seq, snap)
    WHERE step.seq IS NOT NULL
),
late AS MATERIALIZED (
    SELECT DISTINCT o.seq
    FROM (
        SELECT listed.seq
        FROM (
            SELECT open.xid, steps.after, steps.seq
            FROM steps
            CROSS JOIN LATERAL pg_snapshot_xip(steps.snap) AS open (xid)
            -- Rows that the stop does not cover are no page's business: they would come again and
            -- again.
            WHERE :until_snapshot::text IS NULL
                OR pg_visible_in_snapshot(open.xid, :until_snapshot::text::pg_snapshot)
        ) AS open
        CROSS JOIN LATERAL (
            SELECT late.seq
            FROM posthaste.outbox AS late
            WHERE late.xid = open.xid
                AND late.seq + 0 > open.after
                AND late.seq + 0 <= least(open.seq, coalesce(:until_seq, open.seq))
            ORDER BY late.seq + 0
            LIMIT :limit
        ) AS listed
        UNION ALL
        SELECT plain.seq
        FROM posthaste.outbox AS plain
        WHERE (SELECT bool_or(is_plain) FROM steps)
            AND plain.xid >= (
                SELECT pg_snapshot_xmax(snap) FROM steps WHERE is_plain ORDER BY 1 LIMIT 1
            )
            AND plain.xid < pg_snapshot_xmax(pg_current_snapshot())
            AND plain.seq <= :after
            AND NOT pg_visible_in_snapshot(
                plain.xid,
                (
                    SELECT step.snap
                    FROM steps AS step
                    WHERE plain.seq <= step.seq
                    ORDER BY step.seq
                    LIMIT 1
                )
            )
            AND (:until_snapshot::text IS NULL OR (
                plain.seq <= :until_seq
                AND pg_visible_in_snapshot(plain.xid, :until_snapshot::text::pg_snapshot)
            ))
    ) AS o
    ORDER BY o.seq
    LIMIT :limit
),
ahead AS MATERIALIZED (
    SELECT :limit - count(*) AS room
    FROM late
),
looked AS MATERIALIZED (
    SELECT count(*) AS rows, max(seq) AS last
    FROM (
        SELECT seq
        FROM late
        UNION ALL (
            SELECT seq
            FROM posthaste.outbox
            WHERE seq > :after AND seq <= coalesce(:until_seq, 9223372036854775807)
            ORDER BY seq
            LIMIT (SELECT room FROM ahead)
        )
    ) AS o
),
wanted AS MATERIALIZED (
    SELECT likes
    FROM posthaste.route
    WHERE name = :route
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
    pg_current_snapshot()::text
        || '+' || age(pg_snapshot_xmax(pg_current_snapshot())::xid) AS snapshot,
    (SELECT '%' = ANY (likes) FROM wanted) AS takes_all,
    (SELECT ARRAY[rows, last] FROM looked) AS scanned,
    (SELECT epoch FROM posthaste.lease WHERE route = :route AND shard = :index::int) AS epoch,
    ARRAY[
        posthaste.lineage(),
        posthaste.seq_last()::text,
        (
            SELECT epoch || '.' || n || '.' || seq
            FROM posthaste.progress
            WHERE route = :route AND shard = :index::int
            ORDER BY epoch DESC, n DESC
            LIMIT 1
        ),
        (SELECT id::text FROM posthaste.outbox WHERE seq = :witness)
    ] AS evidence,
    (SELECT id FROM posthaste.outbox WHERE seq = (SELECT last FROM looked)) AS witness
UNION ALL (
    SELECT
        seq, id, topic, key, type,
        CASE
            WHEN coalesce(octet_length(payload_binary), octet_length(payload)) <= :small
                THEN coalesce(payload_binary, convert_to(payload, 'UTF8'))
        END,
        CASE
            WHEN coalesce(octet_length(payload_binary), octet_length(payload)) > :small
                THEN coalesce(octet_length(payload_binary), octet_length(payload))
        END,
        headers::text, content_type,
        created_at,
        NULL, NULL, NULL, NULL, NULL, NULL
    FROM posthaste.outbox
    WHERE seq = ANY (ARRAY(SELECT seq FROM late))
        AND topic LIKE ANY ((SELECT likes FROM wanted)::text[])
        AND (:of::int = 1 OR CASE
            WHEN key IS NULL THEN seq % 65536
            ELSE ('x' || left(md5(key), 4))::bit(16)::int
        END % :of::int = :index::int)
    ORDER BY seq
)
UNION ALL (
    SELECT
        seq, id, topic, key, type,
        CASE
            WHEN coalesce(octet_length(payload_binary), octet_length(payload)) <= :small
                THEN coalesce(payload_binary, convert_to(payload, 'UTF8'))
        END,
        CASE
            WHEN coalesce(octet_length(payload_binary), octet_length(payload)) > :small
                THEN coalesce(octet_length(payload_binary), octet_length(payload))
        END,
        headers::text, content_type,
        created_at,
        NULL, NULL, NULL, NULL, NULL, NULL
    FROM (
        SELECT
            xid, seq, id, topic, key, type, payload, payload_binary, headers, content_type,
            created_at
        FROM posthaste.outbox
        WHERE seq > :after AND seq <= coalesce(:until_seq, 9223372036854775807)
        ORDER BY seq
        LIMIT (SELECT room FROM ahead)
    ) AS o
    WHERE topic LIKE ANY ((SELECT likes FROM wanted)::text[])
        AND (:of::int = 1 OR CASE
            WHEN key IS NULL THEN seq % 65536
            ELSE ('x' || left(md5(key), 4))::bit(16)::int
        END % :of::int = :index::int)
        AND (
            :until_snapshot::text IS NULL
            OR pg_visible_in_snapshot(xid, :until_snapshot::text::pg_snapshot)
        )
)
