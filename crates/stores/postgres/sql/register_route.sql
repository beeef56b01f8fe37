-- register_route: makes a route known, or updates its topics; returns how it is split.
-- Concurrency: locks the route's row. Index: route_pkey.
INSERT INTO posthaste.route (name, topics, likes, shards)
VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE
SET topics = excluded.topics, likes = excluded.likes
RETURNING shards, resizing_to
