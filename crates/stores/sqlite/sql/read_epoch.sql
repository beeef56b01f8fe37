-- read_epoch: the epoch of a shard's lease.
-- Concurrency: in the transaction that takes the lease. Index: primary key.
SELECT epoch
FROM posthaste_lease
WHERE route = :route AND shard = :shard
