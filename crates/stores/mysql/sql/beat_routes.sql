-- beat_routes: which routes each relay that is there serves.
-- Concurrency: reads. Index: none, a row per running relay.
SELECT routes
FROM posthaste_relay
WHERE expires_at > UTC_TIMESTAMP(6)
