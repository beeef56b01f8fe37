-- insert_progress: one position (?, seq ?) for every lease of route ?.
-- Concurrency: with route and leases locked. Index: primary key.
INSERT INTO posthaste_progress (route, shard, epoch, n, position, seq, at)
SELECT
    route,
    shard,
    epoch,
    1,
    ?,
    ?,
    UTC_TIMESTAMP(6)
FROM posthaste_lease
WHERE route = ?
