-- mark_leases: as mark_lease, for every shard of route :route, under the epoch that its lease has.
-- Concurrency: as mark_lease, with the leases locked. Index: primary keys.
INSERT INTO posthaste_progress (route, shard, epoch, n, position, seq, at)
SELECT
    lease.route,
    lease.shard,
    lease.epoch,
    COALESCE(
        (
            SELECT MAX(earlier.n)
            FROM posthaste_progress AS earlier
            WHERE earlier.route = lease.route
                AND earlier.shard = lease.shard
                AND earlier.epoch = lease.epoch
        ),
        0) + 1,
    COALESCE(
        (
            SELECT latest.position
            FROM posthaste_progress AS latest
            WHERE latest.route = lease.route AND latest.shard = lease.shard
            ORDER BY latest.epoch DESC, latest.n DESC
            LIMIT 1
        ),
        ''),
    COALESCE(
        (
            SELECT latest.seq
            FROM posthaste_progress AS latest
            WHERE latest.route = lease.route AND latest.shard = lease.shard
            ORDER BY latest.epoch DESC, latest.n DESC
            LIMIT 1
        ),
        0),
    UTC_TIMESTAMP(6)
FROM posthaste_lease AS lease
WHERE lease.route = :route
