-- read_positions: the latest position of each shard of a route (of every route, where $1 is NULL).
-- Concurrency: reads; exact with the leases locked. Index: lease_pkey, progress_pkey backwards.
SELECT lease.route, lease.shard, lease.epoch, coalesce(latest.position, '')
FROM posthaste.lease
LEFT JOIN LATERAL (
    SELECT progress.position
    FROM posthaste.progress
    WHERE progress.route = lease.route AND progress.shard = lease.shard
    ORDER BY progress.epoch DESC, progress.n DESC
    LIMIT 1
) AS latest ON true
WHERE lease.route = $1 OR $1 IS NULL
ORDER BY lease.route, lease.shard
