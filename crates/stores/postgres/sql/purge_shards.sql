-- purge_shards: every shard of every route.
-- Concurrency: reads. Index: lease_pkey.
SELECT route, shard
FROM posthaste.lease
ORDER BY route, shard
