-- status_leases: the leases of route ?, their holders unless expired, and how far each shard has
-- read.
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
WHERE lease.route = ?
ORDER BY lease.shard
