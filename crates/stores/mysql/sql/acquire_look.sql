-- acquire_look: how route :route is split, and whether shard :shard exists and its lease is free.
-- Concurrency: reads, so that relays standing by lock nothing; acquire asks again.
-- Index: primary keys.
SELECT
    route.shards,
    lease.shard IS NOT NULL
        AND (lease.relay IS NULL OR lease.expires_at <= UTC_TIMESTAMP(6))
FROM posthaste_route AS route
LEFT JOIN posthaste_lease AS lease ON lease.route = route.name AND lease.shard = :shard
WHERE route.name = :route
