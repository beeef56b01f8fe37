-- read_shards: the shards of route `:route`, their epochs and latest positions.
-- Concurrency: reads; exact with the leases locked. Index: lease_pkey, progress_pkey backwards.
SELECT
    lease.shard,
    lease.epoch,
    latest.position
FROM posthaste.lease
LEFT JOIN LATERAL (
    SELECT progress.position
    FROM posthaste.progress
    WHERE progress.route = lease.route AND progress.shard = lease.shard
    ORDER BY progress.epoch DESC, progress.n DESC
    LIMIT 1
) AS latest ON true
WHERE lease.route = :route
ORDER BY lease.shard
