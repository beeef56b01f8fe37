-- purge_sweep: looks at `:look` rows of the log behind seq `:after` and removes up to `:limit` that some
-- route takes and every shard of every route had passed `:retention` microseconds ago. A row that a shard
-- had passed then, its latest position must cover, too: adopting another server's dump moves positions
-- back. Of a position only the first step counts: it is the most recent, and the others are passed
-- soon enough. Returns the highest seq that may go (0: none), how many rows it looked at, the last of
-- them, how many it removed and the last of those.
-- Concurrency: deciding and removing are one statement, and so of one snapshot; with
-- purge_hold_routes, no route is registered or changed meanwhile. Skips rows that another purge has
-- locked; nobody else locks rows of the log. Index: lease_pkey, progress_pkey backwards, outbox_pkey.
WITH passed AS MATERIALIZED (
    SELECT
        coalesce(nullif(split_part(entry.position, '@', 1), ''), '0')::bigint AS seq,
        split_part(split_part(entry.position, ';', 1), '@', 2) AS snapshot
    FROM posthaste.lease
    CROSS JOIN LATERAL (
        SELECT coalesce(
            (
                SELECT progress.position
                FROM posthaste.progress
                WHERE progress.route = lease.route
                    AND progress.shard = lease.shard
                    AND progress.at <= clock_timestamp() - (:retention * interval '1 microsecond')
                ORDER BY progress.epoch DESC, progress.n DESC
                LIMIT 1
            ),
            ''
        )
        UNION
        SELECT coalesce(
            (
                SELECT progress.position
                FROM posthaste.progress
                WHERE progress.route = lease.route AND progress.shard = lease.shard
                ORDER BY progress.epoch DESC, progress.n DESC
                LIMIT 1
            ),
            ''
        )
    ) AS entry (position)
),
boundary AS MATERIALIZED (
    SELECT
        coalesce(min(seq), 0) AS seq,
        array_agg(DISTINCT snapshot) FILTER (WHERE snapshot <> '') AS snapshots
    FROM passed
),
looked AS MATERIALIZED (
    SELECT seq, xid, topic
    FROM posthaste.outbox
    WHERE seq > :after AND seq <= (SELECT boundary.seq FROM boundary)
    ORDER BY seq
    LIMIT :look
),
done AS MATERIALIZED (
    SELECT looked.seq
    FROM looked
    WHERE NOT EXISTS (
            SELECT
            FROM boundary
            CROSS JOIN unnest(boundary.snapshots) AS snapshot
            WHERE NOT pg_visible_in_snapshot(looked.xid, snapshot::pg_snapshot)
        )
        AND EXISTS (
            SELECT
            FROM posthaste.route
            WHERE looked.topic LIKE ANY (route.likes)
        )
    ORDER BY looked.seq
    LIMIT :limit
),
locked AS MATERIALIZED (
    SELECT seq
    FROM posthaste.outbox
    WHERE seq = ANY (ARRAY(SELECT seq FROM done))
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM posthaste.outbox
    WHERE seq = ANY (ARRAY(SELECT seq FROM locked))
    RETURNING seq
)
SELECT
    (SELECT seq FROM boundary),
    (SELECT count(*) FROM looked),
    (SELECT max(seq) FROM looked),
    (SELECT count(*) FROM removed),
    (SELECT max(seq) FROM done)
