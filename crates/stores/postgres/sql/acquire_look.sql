-- acquire_look: the shards of route `:route`, and whether the lease of shard `:shard` is free or expired.
-- Concurrency: reads. Index: route_pkey, lease_pkey.
SELECT
    route.shards,
    lease.route IS NOT NULL AND (lease.relay IS NULL OR lease.expires_at <= clock_timestamp())
FROM posthaste.route
LEFT JOIN posthaste.lease ON lease.route = route.name AND lease.shard = :shard
WHERE route.name = :route
