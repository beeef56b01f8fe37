-- read_shards: the shards of route :route in their order, each with its epoch and how far it has read.
-- Concurrency: reads; exact with the leases locked. Index: primary keys.
SELECT
    lease.shard,
    lease.epoch,
    COALESCE(
        (
            SELECT progress.position
            FROM posthaste_progress AS progress
            WHERE progress.route = lease.route AND progress.shard = lease.shard
            ORDER BY progress.epoch DESC, progress.n DESC
            LIMIT 1
        ),
        '')
FROM posthaste_lease AS lease
WHERE lease.route = :route
ORDER BY lease.shard
