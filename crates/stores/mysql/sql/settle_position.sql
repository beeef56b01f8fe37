-- settle_position: appends progress (position :position, seq :seq) to the journal of route :route, shard
-- :shard, if relay :relay still holds the lease with epoch :epoch and the log is the one that the lease
-- was granted in; appends nothing where it is not. The log is that one if there is no evidence (:entry_n is
-- NULL), or if its end is not below :seq, the shard's journal does not end before (:entry_epoch, :entry_n;
-- the epoch is 0 where nothing was written yet), and message :witness_id is at :witness_seq, or was
-- passed.
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
    :position,
    :seq,
    UTC_TIMESTAMP(6)
FROM posthaste_lease AS lease
WHERE lease.route = :route
    AND lease.shard = :shard
    AND lease.relay = :relay
    AND lease.epoch = :epoch
    AND (:entry_n IS NULL OR (
        (SELECT seq FROM posthaste_sequencer WHERE one = 1) >= :seq
        AND COALESCE(
            (
                SELECT
                    latest.epoch > :entry_epoch
                    OR (latest.epoch = :entry_epoch AND latest.n >= :entry_n)
                FROM posthaste_progress AS latest
                WHERE latest.route = lease.route AND latest.shard = lease.shard
                ORDER BY latest.epoch DESC, latest.n DESC
                LIMIT 1
            ),
            :entry_epoch = 0)
        AND COALESCE(
            (
                SELECT witness.id = :witness_id
                FROM posthaste_log AS witness
                WHERE witness.seq = :witness_seq
            ),
            :witness_seq <= (
                SELECT latest.seq
                FROM posthaste_progress AS latest
                WHERE latest.route = lease.route AND latest.shard = lease.shard
                ORDER BY latest.epoch DESC, latest.n DESC
                LIMIT 1
            ),
            :witness_seq IS NULL)
    ))
FOR UPDATE
