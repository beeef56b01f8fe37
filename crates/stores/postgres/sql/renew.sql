-- renew: extends the lease of shard `:shard` of route `:route` to `:ttl` microseconds from now, if relay
-- `:relay` still holds it under epoch `:epoch`; never shortens it.
-- Concurrency: of this term only: a late renewal cannot touch a newer one. Index: lease_pkey.
UPDATE posthaste.lease
SET expires_at = greatest(expires_at, clock_timestamp() + :ttl * interval '1 microsecond')
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
