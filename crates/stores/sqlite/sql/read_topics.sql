-- read_topics: every route's topics.
-- Concurrency: reads a snapshot, waits for nobody. Index: none (one row a route).
SELECT topics
FROM posthaste_route
ORDER BY name
