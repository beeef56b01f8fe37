-- insert_progress: every shard of a route starts at :position.
-- Concurrency: in the transaction that completes a resize. Index: primary key.
INSERT INTO posthaste_progress (route, shard, epoch, n, position, seq, at)
SELECT
    route,
    shard,
    epoch,
    1,
    :position,
    :seq,
    unixepoch('subsec')
FROM posthaste_lease
WHERE route = :route
