-- read_journal: the positions of route :route, shard :shard up to seq :end, the latest first, :limit at
-- most.
-- Concurrency: in the transaction that takes the lease. Index: primary key, backwards.
SELECT position
FROM posthaste_progress
WHERE route = :route AND shard = :shard AND seq <= :end
ORDER BY epoch DESC, n DESC
LIMIT :limit
