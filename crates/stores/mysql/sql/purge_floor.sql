-- purge_floor: for each shard of each route, the highest seq that it had passed :retention ago, and has
-- passed by its latest position too; NULL where it had passed nothing.
-- Concurrency: reads; with purge_lock_routes held, no route is registered meanwhile.
-- Index: primary keys.
SELECT LEAST(
    (
        SELECT progress.seq
        FROM posthaste_progress AS progress
        WHERE progress.route = lease.route
            AND progress.shard = lease.shard
            AND progress.at <= UTC_TIMESTAMP(6) - INTERVAL :retention MICROSECOND
        ORDER BY progress.epoch DESC, progress.n DESC
        LIMIT 1
    ),
    (
        SELECT progress.seq
        FROM posthaste_progress AS progress
        WHERE progress.route = lease.route AND progress.shard = lease.shard
        ORDER BY progress.epoch DESC, progress.n DESC
        LIMIT 1
    ))
FROM posthaste_lease AS lease
