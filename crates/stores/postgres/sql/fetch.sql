-- fetch: the next rows that a position does not cover: late commits first, then the rows ahead, by seq.
-- For an unsharded route of every topic, the usual one; fetch_some is for the others. Two
-- statements, because planning the filters would take a quarter of this one's time.
--
-- `:seqs` and `:snapshots` of the position's steps; `:after` its highest seq; `:limit` rows to look at;
-- payloads above `:small` bytes come back empty; `:route`; `:witness` a seq whose message is known.
--
-- One row (the one with a snapshot) is the header: the statement's snapshot, its time, whether the
-- route takes every topic (NULL: there is no such route), the shard's epoch (NULL: there is no
-- such shard), and the facts that evidence is compared with, as in read_evidence. All other rows are
-- messages.
--
-- Behind the header's snapshot, after a plus sign, stands how many transaction ids have been handed
-- out from its xmax on; `listed` in snapshot.rs says what for. Function age reads that number when a
-- transaction first calls it. So this must be the first statement of its transaction, and age must
-- not stand in a condition, which the planner might work out before the snapshot is taken.
--
-- Late rows are those that a step's snapshot lists as open: each such transaction is looked up by
-- itself, between the step's ends, so the cost is that of the open transactions, however much has
-- been committed since. A step whose snapshot is plain (ADR 12) also has them among all transactions
-- from its xmax on, which is what `plain` reads.
--
-- Concurrency: takes no lock, waits for nobody; one statement, so one snapshot.
-- Index: outbox_late for late rows, outbox_pkey for the rest (tests assert the plan and the number of
-- pages). `seq + 0` is what outbox_late has, so that the primary key does not suit: where one
-- transaction wrote most of the log, the planner would take that and read it from the start.
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
        ) AS open
        CROSS JOIN LATERAL (
            SELECT late.seq
            FROM posthaste.outbox AS late
            WHERE late.xid = open.xid
                AND late.seq + 0 > open.after
                AND late.seq + 0 <= open.seq
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
    ) AS o
    ORDER BY o.seq
    LIMIT :limit
),
ahead AS MATERIALIZED (
    SELECT :limit - count(*) AS room
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
    pg_current_snapshot()::text
        || '+' || age(pg_snapshot_xmax(pg_current_snapshot())::xid) AS snapshot,
    (SELECT '%' = ANY (likes) FROM posthaste.route WHERE name = :route) AS takes_all,
    NULL::int8[] AS scanned,
    (SELECT epoch FROM posthaste.lease WHERE route = :route AND shard = 0) AS epoch,
    ARRAY[
        posthaste.lineage(),
        posthaste.seq_last()::text,
        (
            SELECT epoch || '.' || n || '.' || seq
            FROM posthaste.progress
            WHERE route = :route AND shard = 0
            ORDER BY epoch DESC, n DESC
            LIMIT 1
        ),
        (SELECT id::text FROM posthaste.outbox WHERE seq = :witness)
    ] AS evidence,
    NULL::uuid AS witness
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
    FROM posthaste.outbox
    WHERE seq > :after
    ORDER BY seq
    LIMIT (SELECT room FROM ahead)
)
