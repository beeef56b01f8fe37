-- read_route: topics of route `:route` as a JSON array, its shards, and the resize under way.
-- Concurrency: reads. Index: route_pkey.
SELECT
    array_to_json(topics)::text,
    shards,
    resizing_to,
    barrier
FROM posthaste.route
WHERE name = :route
