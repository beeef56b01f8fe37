-- acquire_look: how a route is split, where it is to stop, and whether shard ?2 is there and its
-- lease free.
-- Concurrency: asked twice: without a lock, so that relays standing by disturb no writer, and again
-- in the transaction that takes the lease. Index: primary keys.
SELECT
    route.shards,
    route.barrier,
    lease.shard IS NOT NULL
        AND (lease.relay IS NULL OR lease.expires_at <= unixepoch('subsec'))
FROM posthaste_route AS route
LEFT JOIN posthaste_lease AS lease ON lease.route = route.name AND lease.shard = ?2
WHERE route.name = ?1
