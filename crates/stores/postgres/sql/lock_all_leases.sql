-- lock_all_leases: as lock_leases, for every route.
-- Concurrency: in one order, so two callers cannot lock each other out. Index: lease_pkey.
SELECT shard
FROM posthaste.lease
ORDER BY route, shard
FOR UPDATE
