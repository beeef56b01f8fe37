-- adopt_positions: the latest position of each shard of every route.
-- Concurrency: reads; exact with the leases locked. Index: lease_pkey, progress_pkey backwards.
SELECT
    lease.route,
    lease.shard,
    latest.position
FROM posthaste.lease
LEFT JOIN LATERAL (
    SELECT progress.position
    FROM posthaste.progress
    WHERE progress.route = lease.route AND progress.shard = lease.shard
    ORDER BY progress.epoch DESC, progress.n DESC
    LIMIT 1
) AS latest ON true
ORDER BY lease.route, lease.shard
