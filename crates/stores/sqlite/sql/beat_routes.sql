-- beat_routes: the routes of every relay that is there.
-- Concurrency: reads a snapshot, waits for nobody. Index: none (one row a relay).
SELECT routes
FROM posthaste_relay
WHERE expires_at > unixepoch('subsec')
