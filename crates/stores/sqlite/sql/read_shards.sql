-- read_shards: each shard's epoch and how far it has read.
-- Concurrency: in the transaction that completes a resize. Index: primary keys.
SELECT
    lease.epoch,
    coalesce(
        (
            SELECT progress.seq
            FROM posthaste_progress AS progress
            WHERE progress.route = lease.route AND progress.shard = lease.shard
            ORDER BY progress.epoch DESC, progress.n DESC
            LIMIT 1
        ),
        0)
FROM posthaste_lease AS lease
WHERE lease.route = ?1
ORDER BY lease.shard
