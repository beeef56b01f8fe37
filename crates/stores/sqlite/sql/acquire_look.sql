-- acquire_look: how many shards a route has, and whether shard :shard is there and its lease
-- free.
-- Concurrency: asked without a lock, so that relays standing by disturb no writer. Index: primary keys.
SELECT
    route.shards,
    lease.shard IS NOT NULL
        AND (lease.relay IS NULL OR lease.expires_at <= unixepoch('subsec'))
FROM posthaste_route AS route
LEFT JOIN posthaste_lease AS lease ON lease.route = route.name AND lease.shard = :shard
WHERE route.name = :route
