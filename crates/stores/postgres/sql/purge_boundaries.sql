-- purge_boundaries: where each shard was $1 seconds ago; NULL for one that was nowhere yet.
-- Concurrency: reads. Index: lease_pkey, progress_pkey backwards.
SELECT boundary.position
FROM posthaste.lease
LEFT JOIN LATERAL (
    SELECT progress.position
    FROM posthaste.progress
    WHERE progress.route = lease.route
        AND progress.shard = lease.shard
        AND progress.at <= clock_timestamp() - make_interval(secs => $1)
    ORDER BY progress.epoch DESC, progress.n DESC
    LIMIT 1
) AS boundary ON true
