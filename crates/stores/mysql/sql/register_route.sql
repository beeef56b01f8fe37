-- register_route: makes route :route known, with topics :topics and :shards shards; one that is there
-- already stays as it is.
-- Concurrency: waits for another that registers it at the same time. Index: primary key.
INSERT INTO posthaste_route (name, topics, shards)
VALUES (:route, :topics, :shards)
ON DUPLICATE KEY UPDATE name = name
