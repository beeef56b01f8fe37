-- read_shards: each shard's epoch and its latest position.
-- Concurrency: in a transaction that holds the write lock. Index: primary keys.
SELECT
    lease.shard,
    lease.epoch,
    coalesce(
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
