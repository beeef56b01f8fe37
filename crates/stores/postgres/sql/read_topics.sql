-- read_topics: the topics of every route, each as a JSON array.
-- Concurrency: reads. Index: none, a row per route.
SELECT array_to_json(topics)::text
FROM posthaste.route
ORDER BY name
