-- lock_leases: the leases of route :route, locked. While they are, no settlement of theirs is in flight
-- and none starts.
-- Concurrency: in one order, so two callers cannot lock each other out; waits for no other route.
-- Index: primary key (range).
SELECT
    route,
    shard
FROM posthaste_lease
WHERE route = :route
ORDER BY route, shard
FOR UPDATE
