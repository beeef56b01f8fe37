-- lock_leases: the leases of a route (of every route, where $1 is NULL), locked. While they are, no
-- settlement of theirs is in flight and none starts.
-- Concurrency: in one order, so two callers cannot lock each other out. Index: lease_pkey.
SELECT route, shard, epoch
FROM posthaste.lease
WHERE route = $1 OR $1 IS NULL
ORDER BY route, shard
FOR UPDATE
