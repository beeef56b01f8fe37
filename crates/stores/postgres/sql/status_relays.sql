-- status_relays: every relay that was there lately, microseconds since it was seen, and the routes it has
-- paused unless it expired.
-- Concurrency: reads. Index: none, a row per running relay.
SELECT
    id::text,
    name,
    version,
    (extract(epoch FROM clock_timestamp() - seen_at) * 1000000)::int8,
    CASE WHEN expires_at > clock_timestamp() THEN paused END
FROM posthaste.relay
ORDER BY name, id
