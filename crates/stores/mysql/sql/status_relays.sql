-- status_relays: every relay that was there lately.
-- Concurrency: reads. Index: none, a row per running relay.
SELECT
    id,
    name,
    version,
    TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(6))
FROM posthaste_relay
ORDER BY name, id
