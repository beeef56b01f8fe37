-- read_position: how far a shard has read.
-- Concurrency: in the transaction that takes the lease, or its holder's. Index: primary key (its last entry).
SELECT position
FROM posthaste_progress
WHERE route = :route AND shard = :shard
ORDER BY epoch DESC, n DESC
LIMIT 1
