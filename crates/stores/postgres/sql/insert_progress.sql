-- insert_progress: one position for every lease of a route.
-- Concurrency: with route and leases locked. Index: lease_pkey.
INSERT INTO posthaste.progress (route, shard, epoch, position, seq)
SELECT route, shard, epoch, $2, $3
FROM posthaste.lease
WHERE route = $1
