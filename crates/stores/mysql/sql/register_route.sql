-- register_route: makes a route known (name ?, topics ?, shards ?); one that is there already stays
-- as it is.
-- Concurrency: waits for another that registers it at the same time. Index: primary key.
INSERT INTO posthaste_route (name, topics, shards)
VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE name = name
