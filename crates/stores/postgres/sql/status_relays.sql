-- status_relays: every relay that was there lately, and the routes it has paused if it is there now.
-- Concurrency: reads. Index: none, a row per running relay.
SELECT
    id::text,
    name,
    version,
    date_part('epoch', clock_timestamp() - seen_at),
    CASE WHEN expires_at > clock_timestamp() THEN paused END
FROM posthaste.relay
ORDER BY name, id
