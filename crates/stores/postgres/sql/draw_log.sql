-- draw_log: gives a route's log an identity, where it has none.
-- Concurrency: waits for another shard of the route that does so. Index: identity_pkey.
INSERT INTO posthaste.identity (route)
VALUES ($1)
ON CONFLICT (route) DO NOTHING
