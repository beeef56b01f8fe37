-- release_own: ends a lease of this relay, whatever its epoch.
-- Concurrency: nothing of it is in flight. Index: lease_pkey.
UPDATE posthaste.lease
SET relay = NULL, expires_at = NULL
WHERE route = $1 AND shard = $2 AND relay = $3
