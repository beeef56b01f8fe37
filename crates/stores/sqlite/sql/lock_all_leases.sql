-- lock_all_leases: every shard of every route.
-- Concurrency: the transaction holds the write lock, so nobody settles until it ends. Index: primary key.
SELECT
    route,
    shard
FROM posthaste_lease
