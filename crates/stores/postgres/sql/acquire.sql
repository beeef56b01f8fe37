-- acquire: gives the lease of shard `:shard` of route `:route` to relay `:relay` for `:ttl` microseconds,
-- with a new epoch, if it is free or expired.
-- Concurrency: waits for a settlement in flight and for nothing else. A layout that changes
-- meanwhile removes the row. Index: lease_pkey.
UPDATE posthaste.lease
SET
    relay = :relay,
    epoch = epoch + 1,
    expires_at = clock_timestamp() + :ttl * interval '1 microsecond'
WHERE route = :route
    AND shard = :shard
    AND (relay IS NULL OR expires_at <= clock_timestamp())
