-- register_route: makes a route known; one that is there already stays as it is.
-- Concurrency: waits for another that registers it at the same time. Index: route_pkey.
INSERT INTO posthaste.route (name, topics, likes, shards)
VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO NOTHING
