-- status_relays: every relay that was there lately, and the routes it has paused if it is there now.
-- Concurrency: reads. Index: none, a row per running relay.
SELECT
    id,
    name,
    version,
    TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(6)),
    IF(expires_at > UTC_TIMESTAMP(6), paused, NULL)
FROM posthaste_relay
ORDER BY name, id
