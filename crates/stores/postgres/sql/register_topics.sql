-- register_topics: writes a route's topics down.
-- Concurrency: with the route's row locked. Index: route_pkey.
UPDATE posthaste.route
SET topics = $2, likes = $3
WHERE name = $1
