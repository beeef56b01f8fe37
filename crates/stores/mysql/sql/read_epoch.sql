-- read_epoch: the epoch of the lease of route :route, shard :shard, which acquire has just taken.
-- Concurrency: in the transaction of acquire, so nobody else has the lease. Index: primary key.
SELECT epoch
FROM posthaste_lease
WHERE route = :route AND shard = :shard
