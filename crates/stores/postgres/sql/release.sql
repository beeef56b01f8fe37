-- release: frees the lease of shard `:shard` of route `:route` if relay `:relay` still holds it under epoch
-- `:epoch`.
-- Concurrency: of this term only. Index: lease_pkey.
UPDATE posthaste.lease
SET relay = NULL, expires_at = NULL
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
