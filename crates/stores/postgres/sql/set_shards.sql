-- set_shards: completes a resize.
-- Concurrency: with the route's row locked. Index: route_pkey.
UPDATE posthaste.route
SET shards = $2, resizing_to = NULL, barrier = NULL
WHERE name = $1
