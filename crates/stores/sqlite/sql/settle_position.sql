-- settle_position: appends how far a shard has read, if the lease is still the holder's and the log is the one
-- it was granted in: the same file is at the path (:lineage, :lineage_here), seq :seq was handed out, the
-- journal does not end before (:entry_epoch, :entry_n), and message :witness_id is at :witness_seq or was
-- passed. All of these are NULL where there is no evidence.
-- Concurrency: one statement, which waits for the writer before it. Index: primary keys.
INSERT INTO posthaste_progress (route, shard, epoch, n, position, seq, at)
SELECT
    lease.route,
    lease.shard,
    lease.epoch,
    coalesce(
        (
            SELECT max(earlier.n)
            FROM posthaste_progress AS earlier
            WHERE earlier.route = lease.route
                AND earlier.shard = lease.shard
                AND earlier.epoch = lease.epoch
        ),
        0) + 1,
    :position,
    :seq,
    unixepoch('subsec')
FROM posthaste_lease AS lease
WHERE lease.route = :route AND lease.shard = :shard AND lease.relay = :relay AND lease.epoch = :epoch
    AND (:entry_epoch IS NULL OR (
        :lineage = :lineage_here
        AND coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'posthaste_outbox'), 0) >= :seq
        AND coalesce(
            (
                SELECT (latest.epoch, latest.n) >= (:entry_epoch, :entry_n)
                FROM posthaste_progress AS latest
                WHERE latest.route = lease.route AND latest.shard = lease.shard
                ORDER BY latest.epoch DESC, latest.n DESC
                LIMIT 1
            ),
            :entry_epoch = 0)
        AND coalesce(
            (SELECT lower(witness.id) = :witness_id FROM posthaste_outbox AS witness WHERE witness.seq = :witness_seq),
            :witness_seq <= (
                SELECT latest.seq
                FROM posthaste_progress AS latest
                WHERE latest.route = lease.route AND latest.shard = lease.shard
                ORDER BY latest.epoch DESC, latest.n DESC
                LIMIT 1
            ),
            :witness_seq IS NULL)
    ))
RETURNING '', epoch, n
