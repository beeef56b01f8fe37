-- status_leases: a route's leases, their holders unless expired, and how far each shard has read.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary keys.
SELECT
    lease.shard,
    CASE WHEN lease.expires_at > unixepoch('subsec') THEN lease.relay END,
    lease.epoch,
    coalesce(
        (
            SELECT progress.seq
            FROM posthaste_progress AS progress
            WHERE progress.route = lease.route AND progress.shard = lease.shard
            ORDER BY progress.epoch DESC, progress.n DESC
            LIMIT 1
        ),
        0),
    CASE
        WHEN lease.expires_at > unixepoch('subsec')
            THEN CAST((lease.expires_at - unixepoch('subsec')) * 1000000 AS INTEGER)
    END
FROM posthaste_lease AS lease
WHERE lease.route = :route
ORDER BY lease.shard
