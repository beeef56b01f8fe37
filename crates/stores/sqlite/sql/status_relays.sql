-- status_relays: every relay that was there lately, and the routes it has paused if it is there now.
-- Concurrency: reads a snapshot, waits for nobody. Index: none (one row a relay).
SELECT
    id,
    name,
    version,
    CAST((unixepoch('subsec') - seen_at) * 1000000 AS INTEGER),
    CASE WHEN expires_at > unixepoch('subsec') THEN paused ELSE '[]' END
FROM posthaste_relay
ORDER BY name, id
