-- draw_log: gives the log of route :route the identity :log, where it has none.
-- Concurrency: waits for another shard of the route that does so. Index: primary key.
INSERT INTO posthaste_identity (route, log)
VALUES (:route, :log)
ON DUPLICATE KEY UPDATE route = posthaste_identity.route
