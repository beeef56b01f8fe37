-- release_own: frees the lease of shard `:shard` of route `:route` if relay `:relay` holds it, whatever its
-- epoch.
-- Concurrency: nothing of it is in flight. Index: lease_pkey.
UPDATE posthaste.lease
SET relay = NULL, expires_at = NULL
WHERE route = :route AND shard = :shard AND relay = :relay
