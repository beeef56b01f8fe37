-- purge_floor: for each shard of each route, the highest seq it had passed :retention microseconds ago, and has
-- passed by its latest position too; NULL where it had passed nothing.
-- Concurrency: in the transaction that deletes, so that a route registered since is seen.
-- Index: primary keys.
SELECT min(
    (
        SELECT progress.seq
        FROM posthaste_progress AS progress
        WHERE progress.route = lease.route
            AND progress.shard = lease.shard
            AND progress.at <= unixepoch('subsec') - :retention / 1000000.0
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
