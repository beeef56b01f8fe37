-- purge_shards: every shard of every route.
-- Concurrency: reads. Index: primary key.
SELECT
    route,
    shard
FROM posthaste_lease
ORDER BY route, shard
