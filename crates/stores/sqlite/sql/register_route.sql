-- register_route: makes a route known, unless it is.
-- Concurrency: in a transaction that holds the write lock. Index: primary key.
INSERT INTO posthaste_route (name, topics, shards)
VALUES (:route, :topics, :shards)
ON CONFLICT (name) DO NOTHING
