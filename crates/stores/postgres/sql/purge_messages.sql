-- purge_messages: looks at $4 rows of the log from seq $1 (exclusive) to $2 and removes up to $5
-- that every snapshot of $3 sees and some route matches. Returns how many rows it looked at, the
-- last of them, how many it removed and the last of those.
-- Concurrency: skips what another cleaner has locked; nobody else locks rows of the log.
-- Index: outbox_pkey.
WITH looked AS MATERIALIZED (
    SELECT seq, xid, topic
    FROM posthaste.outbox
    WHERE seq > $1 AND seq <= $2
    ORDER BY seq
    LIMIT $4
),
done AS MATERIALIZED (
    SELECT looked.seq
    FROM looked
    WHERE NOT EXISTS (
            SELECT
            FROM unnest($3::text[]) AS snapshot
            WHERE NOT pg_visible_in_snapshot(looked.xid, snapshot::pg_snapshot)
        )
        AND EXISTS (
            SELECT
            FROM posthaste.route
            WHERE looked.topic LIKE ANY (route.likes)
        )
    ORDER BY looked.seq
    LIMIT $5
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
    (SELECT count(*) FROM looked),
    (SELECT max(seq) FROM looked),
    (SELECT count(*) FROM removed),
    (SELECT max(seq) FROM done)
