-- status_routes: every route: its name, its topics as a JSON array, its shards.
-- Concurrency: reads. Index: none, a row per route.
SELECT
    name,
    array_to_json(topics)::text,
    shards
FROM posthaste.route
ORDER BY name
