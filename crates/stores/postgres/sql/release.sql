-- release: gives a lease back if it is still the holder's.
-- Concurrency: of this term only. Index: lease_pkey.
UPDATE posthaste.lease
SET relay = NULL, expires_at = NULL
WHERE route = $1 AND shard = $2 AND relay = $3 AND epoch = $4
