-- purge_lock_routes: every route's topics.
-- Concurrency: the transaction holds the write lock, so no route is registered or changed until it ends.
-- Index: none (one row a route).
SELECT topics
FROM posthaste_route
ORDER BY name
