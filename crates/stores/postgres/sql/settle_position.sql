-- settle_position: adds position `:position`, up to seq `:seq`, to the journal of shard `:shard` of route
-- `:route`, if relay `:relay` still holds the lease under epoch `:epoch` and the log is the one of the
-- evidence: `:lineage`, `:reach` (the position's highest xmax), `:entry_epoch` and `:entry_n` of the latest
-- journal entry known, `:witness_seq` and `:witness_id` of a row that was read, which is there unless the
-- journal has passed it. All of them are NULL where there is no evidence, but for `:reach`. Returns the id
-- of this transaction, as the horizon, and the entry's epoch and n; no row where nothing was added.
-- Concurrency: as fence. Appends only, so a long-running reader makes it no slower.
-- Index: lease_pkey, progress_pkey, outbox_pkey.
WITH fence AS MATERIALIZED (
    SELECT route, shard, epoch
    FROM posthaste.lease
    WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
        AND (:lineage::text IS NULL OR (
            posthaste.lineage() = :lineage
            AND posthaste.seq_last() >= :seq
            AND pg_snapshot_xmax(pg_current_snapshot()) >= :reach::text::xid8
            AND coalesce(
                (
                    SELECT (epoch, n) >= (:entry_epoch, :entry_n)
                    FROM posthaste.progress
                    WHERE route = :route AND shard = :shard
                    ORDER BY epoch DESC, n DESC
                    LIMIT 1
                ),
                :entry_epoch = 0
            )
            AND coalesce(
                (SELECT id = :witness_id FROM posthaste.outbox WHERE seq = :witness_seq),
                :witness_seq <= (
                    SELECT seq
                    FROM posthaste.progress
                    WHERE route = :route AND shard = :shard
                    ORDER BY epoch DESC, n DESC
                    LIMIT 1
                ),
                :witness_seq IS NULL
            )
        ))
    FOR SHARE
)
INSERT INTO posthaste.progress (route, shard, epoch, position, seq)
SELECT route, shard, epoch, :position, :seq
FROM fence
RETURNING pg_current_xact_id()::text, epoch, n
