-- register_lock: how a route is split and its topics, and nobody else changes them until this
-- transaction ends.
-- Concurrency: always locked before the route's leases. Index: route_pkey.
SELECT shards, resizing_to, topics
FROM posthaste.route
WHERE name = $1
FOR UPDATE
