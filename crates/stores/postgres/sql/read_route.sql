-- read_route: how a route is split.
-- Concurrency: reads. Index: route_pkey.
SELECT shards, resizing_to, barrier
FROM posthaste.route
WHERE name = $1
