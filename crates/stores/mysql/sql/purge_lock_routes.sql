-- purge_lock_routes: every route's topics; no route is registered or changed until this transaction
-- ends.
-- Concurrency: under REPEATABLE READ, so that the places of routes to come are locked too. Does not
-- wait: where a registration is under way, or another cleaner, it fails. Index: none, a row per route.
SELECT topics
FROM posthaste_route
ORDER BY name
FOR UPDATE NOWAIT
