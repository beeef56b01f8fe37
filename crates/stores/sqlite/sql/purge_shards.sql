-- purge_shards: every shard of every route.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key.
SELECT
    route,
    shard
FROM posthaste_lease
ORDER BY route, shard
