-- status_relays: every relay that was there lately.
-- Concurrency: reads. Index: none, a row per running relay.
SELECT id::text, name, version, date_part('epoch', clock_timestamp() - seen_at)
FROM posthaste.relay
ORDER BY name, id
