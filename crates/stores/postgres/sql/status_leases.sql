-- status_leases: the leases of route `:route`: shard, holder unless expired, epoch, seq of the latest
-- journal entry, and microseconds until the lease expires.
-- Concurrency: reads. Index: lease_pkey, progress_pkey backwards.
SELECT
    lease.shard,
    CASE WHEN lease.expires_at > clock_timestamp() THEN lease.relay::text END,
    lease.epoch,
    coalesce(
        (
            SELECT progress.seq
            FROM posthaste.progress
            WHERE progress.route = lease.route AND progress.shard = lease.shard
            ORDER BY progress.epoch DESC, progress.n DESC
            LIMIT 1
        ),
        0
    ),
    CASE
        WHEN lease.expires_at > clock_timestamp()
            THEN (extract(epoch FROM lease.expires_at - clock_timestamp()) * 1000000)::int8
    END
FROM posthaste.lease
WHERE lease.route = :route
ORDER BY lease.shard
