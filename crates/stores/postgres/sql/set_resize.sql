-- set_resize: starts a resize of a route ($2 shards at $3), moves its barrier, or ends it (NULLs).
-- Concurrency: with the route's row locked. Index: route_pkey.
UPDATE posthaste.route
SET resizing_to = $2, barrier = $3
WHERE name = $1
