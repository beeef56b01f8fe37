-- fence: one row if relay `:relay` still holds the lease of shard `:shard` of route `:route` under epoch
-- `:epoch`.
-- Concurrency: the share lock makes a take-over wait for the end of this transaction; a settlement
-- that waits for a take-over finds another epoch. Index: lease_pkey.
SELECT epoch
FROM posthaste.lease
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
FOR SHARE
