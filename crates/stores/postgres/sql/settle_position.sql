-- settle_position: appends progress if the lease is still the holder's and the log is the one it was
-- granted in ($7 lineage, $8 the position's highest xmax, $9 and $10 the latest journal entry known, $11
-- and $12 a row that was read, which is there unless the journal has passed it; all NULL where there is no evidence). Says which transaction does so,
-- and which entry it is; no row where it is not.
-- Concurrency: as settle_fence. Appends only, so a long-running reader makes it no slower.
-- Index: lease_pkey, progress_pkey, outbox_pkey.
WITH fence AS MATERIALIZED (
    SELECT route, shard, epoch
    FROM posthaste.lease
    WHERE route = $1 AND shard = $2 AND relay = $3 AND epoch = $4
        AND ($7::text IS NULL OR (
            posthaste.lineage() = $7
            AND posthaste.seq_last() >= $6
            AND pg_snapshot_xmax(pg_current_snapshot()) >= $8::text::xid8
            AND coalesce(
                (
                    SELECT (epoch, n) >= ($9, $10)
                    FROM posthaste.progress
                    WHERE route = $1 AND shard = $2
                    ORDER BY epoch DESC, n DESC
                    LIMIT 1
                ),
                $9 = 0
            )
            AND coalesce(
                (SELECT id = $12 FROM posthaste.outbox WHERE seq = $11),
                $11 <= (
                    SELECT seq
                    FROM posthaste.progress
                    WHERE route = $1 AND shard = $2
                    ORDER BY epoch DESC, n DESC
                    LIMIT 1
                ),
                $11 IS NULL
            )
        ))
    FOR SHARE
)
INSERT INTO posthaste.progress (route, shard, epoch, position, seq)
SELECT route, shard, epoch, $5, $6
FROM fence
RETURNING pg_current_xact_id()::text, epoch, n
