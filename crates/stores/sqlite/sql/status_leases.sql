-- status_leases: a route's leases and how far each shard has read.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary keys.
SELECT
    lease.shard,
    lease.relay,
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
    max(lease.expires_at - unixepoch('subsec'), 0.0)
FROM posthaste_lease AS lease
WHERE lease.route = ?1
ORDER BY lease.shard
