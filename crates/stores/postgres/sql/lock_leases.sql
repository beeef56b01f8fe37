-- lock_leases: the leases of route `:route`, locked. While they are, no settlement of the route is in
-- flight and none starts.
-- Concurrency: in one order, so two callers cannot lock each other out. Index: lease_pkey.
SELECT shard
FROM posthaste.lease
WHERE route = :route
ORDER BY shard
FOR UPDATE
