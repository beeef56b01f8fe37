-- lock_route: how a route is split, and nobody else changes it until this transaction ends.
-- Concurrency: always locked before the route's leases. Index: route_pkey.
SELECT shards, resizing_to, barrier
FROM posthaste.route
WHERE name = $1
FOR UPDATE
