-- beat_routes: the routes of every relay that has not expired, each as a JSON array.
-- Concurrency: reads. Index: none, a row per running relay.
SELECT array_to_json(routes)::text
FROM posthaste.relay
WHERE expires_at > clock_timestamp()
