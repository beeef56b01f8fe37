-- lock_leases: the leases of route ?, locked. While they are, no settlement of theirs is in flight
-- and none starts.
-- Concurrency: in one order, so two callers cannot lock each other out; waits for no other route.
-- Index: primary key (range).
SELECT
    route,
    shard
FROM posthaste_lease
WHERE route = ?
ORDER BY route, shard
FOR UPDATE
