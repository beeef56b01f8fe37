-- purge_floor: for each shard of each route, the highest seq it had passed ? microseconds ago; NULL
-- where it had passed nothing.
-- Concurrency: reads. Index: primary keys.
SELECT (
    SELECT progress.seq
    FROM posthaste_progress AS progress
    WHERE progress.route = lease.route
        AND progress.shard = lease.shard
        AND progress.at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
    ORDER BY progress.epoch DESC, progress.n DESC
    LIMIT 1)
FROM posthaste_lease AS lease
