-- status_routes: every route.
-- Concurrency: reads. Index: none, a row per route.
SELECT
    name,
    topics,
    shards
FROM posthaste_route
ORDER BY name
