-- status_routes: every route.
-- Concurrency: reads a snapshot, waits for nobody. Index: none (one row a route).
SELECT
    name,
    topics,
    shards
FROM posthaste_route
ORDER BY name
