-- adopt_identity: from now on positions are of this server.
-- Concurrency: with the leases locked. Index: meta_pkey.
INSERT INTO posthaste.meta (key, value)
SELECT 'system_identifier', system_identifier::text
FROM pg_control_system()
ON CONFLICT (key) DO UPDATE
SET value = excluded.value
