-- acquire_epoch: the epoch of a lease that acquire has just taken; of route ?, shard ?.
-- Concurrency: in its transaction, so nobody else has it. Index: primary key.
SELECT epoch
FROM posthaste_lease
WHERE route = ? AND shard = ?
