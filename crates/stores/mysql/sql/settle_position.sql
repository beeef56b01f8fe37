-- settle_position: appends progress (position ?, seq ?) if the lease is still the holder's (route ?,
-- shard ?, relay ?, epoch ?); no row where it is not.
-- Concurrency: as fence. Appends only, so a long-running reader makes it no slower.
-- Index: primary keys.
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
    ?,
    ?,
    UTC_TIMESTAMP(6)
FROM posthaste_lease AS lease
WHERE lease.route = ? AND lease.shard = ? AND lease.relay = ? AND lease.epoch = ?
FOR UPDATE
