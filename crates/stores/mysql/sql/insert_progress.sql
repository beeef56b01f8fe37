-- insert_progress: one position (:position, seq :seq) for every lease of route :route.
-- Concurrency: with route and leases locked. Index: primary key.
INSERT INTO posthaste_progress (route, shard, epoch, n, position, seq, at)
SELECT
    route,
    shard,
    epoch,
    1,
    :position,
    :seq,
    UTC_TIMESTAMP(6)
FROM posthaste_lease
WHERE route = :route
