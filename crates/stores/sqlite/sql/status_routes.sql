-- status_routes: every route with both ends of the log.
-- Concurrency: reads a snapshot, waits for nobody. Index: none (one row a route), primary key (ends).
SELECT
    route.name,
    route.topics,
    route.shards,
    coalesce((SELECT min(seq) FROM posthaste_outbox) - 1, 0),
    coalesce((SELECT max(seq) FROM posthaste_outbox), 0)
FROM posthaste_route AS route
ORDER BY route.name
