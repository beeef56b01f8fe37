-- status_relays: every relay that was there lately.
-- Concurrency: reads a snapshot, waits for nobody. Index: none (one row a relay).
SELECT
    id,
    name,
    version,
    unixepoch('subsec') - seen_at
FROM posthaste_relay
ORDER BY name, id
