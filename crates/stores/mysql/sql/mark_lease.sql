-- mark_lease: repeats the latest position of shard :shard of route :route in its journal, under epoch
-- :epoch.
-- Concurrency: with the lease locked. It takes the place of the next settlement of that epoch. Nodes
-- of a Galera cluster do not share locks: a settlement that another node has committed, and that has
-- not arrived here, collides with it, and one of the two is undone. Index: primary keys.
INSERT INTO posthaste_progress (route, shard, epoch, n, position, seq, at)
SELECT
    lease.route,
    lease.shard,
    given.epoch,
    COALESCE(
        (
            SELECT MAX(earlier.n)
            FROM posthaste_progress AS earlier
            WHERE earlier.route = lease.route
                AND earlier.shard = lease.shard
                AND earlier.epoch = given.epoch
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
FROM (SELECT CAST(:epoch AS SIGNED) AS epoch) AS given
STRAIGHT_JOIN posthaste_lease AS lease
WHERE lease.route = :route AND lease.shard = :shard
