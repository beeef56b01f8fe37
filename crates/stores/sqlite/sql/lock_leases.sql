-- lock_leases: the shards of a route.
-- Concurrency: the transaction holds the write lock, so nobody settles until it ends. Index: primary key.
SELECT shard
FROM posthaste_lease
WHERE route = :route
