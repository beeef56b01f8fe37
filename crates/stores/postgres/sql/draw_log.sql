-- draw_log: names the log of route `:route` `:log`, where it has no name.
-- Concurrency: waits for another shard of the route that does so. Index: identity_pkey.
INSERT INTO posthaste.identity (route, log)
VALUES (:route, :log)
ON CONFLICT (route) DO NOTHING
