-- lock_all_leases: every lease, locked. While they are, no settlement is in flight and none starts.
-- Concurrency: in one order, so two callers cannot lock each other out. Index: primary key.
SELECT
    route,
    shard
FROM posthaste_lease
ORDER BY route, shard
FOR UPDATE
