-- read_epoch: the epoch of the lease of shard `:shard` of route `:route`.
-- Concurrency: reads; exact once the lease is taken. Index: lease_pkey.
SELECT epoch
FROM posthaste.lease
WHERE route = :route AND shard = :shard
