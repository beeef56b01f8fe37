-- acquire_look: how a route is split, and whether shard ? is there and its lease free; of route ?.
-- Concurrency: reads, so that relays standing by lock nothing; asked again by acquire.
-- Index: primary keys.
SELECT
    route.shards,
    lease.shard IS NOT NULL
        AND (lease.relay IS NULL OR lease.expires_at <= UTC_TIMESTAMP(6))
FROM posthaste_route AS route
LEFT JOIN posthaste_lease AS lease ON lease.route = route.name AND lease.shard = ?
WHERE route.name = ?
