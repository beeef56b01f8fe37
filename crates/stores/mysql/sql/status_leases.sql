-- status_leases: the shards of route :route: the holder of the lease unless it has expired, its epoch, how
-- far the shard has read, and the time until the lease expires.
-- Concurrency: reads. Index: primary keys.
SELECT
    lease.shard,
    IF(lease.expires_at > UTC_TIMESTAMP(6), lease.relay, NULL),
    lease.epoch,
    COALESCE(
        (
            SELECT progress.seq
            FROM posthaste_progress AS progress
            WHERE progress.route = lease.route AND progress.shard = lease.shard
            ORDER BY progress.epoch DESC, progress.n DESC
            LIMIT 1
        ),
        0),
    IF(
        lease.expires_at > UTC_TIMESTAMP(6),
        TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease.expires_at),
        NULL)
FROM posthaste_lease AS lease
WHERE lease.route = :route
ORDER BY lease.shard
