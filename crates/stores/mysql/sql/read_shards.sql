-- read_shards: how far each shard of route ? has read, in the order of shards, and its epoch.
-- Concurrency: reads; exact with the leases locked. Index: primary keys.
SELECT
    lease.epoch,
    COALESCE(
        (
            SELECT progress.seq
            FROM posthaste_progress AS progress
            WHERE progress.route = lease.route AND progress.shard = lease.shard
            ORDER BY progress.epoch DESC, progress.n DESC
            LIMIT 1
        ),
        0)
FROM posthaste_lease AS lease
WHERE lease.route = ?
ORDER BY lease.shard
