-- status_routes: every route.
-- Concurrency: reads. Index: none, a row per route.
SELECT name, topics
FROM posthaste.route
ORDER BY name
