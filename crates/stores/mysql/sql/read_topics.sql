-- read_topics: every route's topics.
-- Concurrency: reads. Index: none, a row per route.
SELECT topics
FROM posthaste_route
ORDER BY name
