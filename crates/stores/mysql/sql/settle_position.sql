-- settle_position: appends progress (position ?, seq ?) if the lease is still the holder's (route ?,
-- shard ?, relay ?, epoch ?) and the log is the one it was granted in; no row where it is not. The log is
-- if there is no evidence (? IS NULL), or if its end is not below seq ?, the shard's journal does not end
-- before (epoch ?, the same ?, n ?; ? is 0 where nothing was written yet), and message ? is
-- at ?, or was passed (?, the same seq; again: ?).
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
    AND (? IS NULL OR (
        (SELECT seq FROM posthaste_sequencer WHERE one = 1) >= ?
        AND COALESCE(
            (
                SELECT latest.epoch > ? OR (latest.epoch = ? AND latest.n >= ?)
                FROM posthaste_progress AS latest
                WHERE latest.route = lease.route AND latest.shard = lease.shard
                ORDER BY latest.epoch DESC, latest.n DESC
                LIMIT 1
            ),
            ? = 0)
        AND COALESCE(
            (SELECT witness.id = ? FROM posthaste_log AS witness WHERE witness.seq = ?),
            ? <= (
                SELECT latest.seq
                FROM posthaste_progress AS latest
                WHERE latest.route = lease.route AND latest.shard = lease.shard
                ORDER BY latest.epoch DESC, latest.n DESC
                LIMIT 1
            ),
            ? IS NULL)
    ))
FOR UPDATE
