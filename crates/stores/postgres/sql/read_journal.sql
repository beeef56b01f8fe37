-- read_journal: the positions that shard `:shard` of route `:route` had, the latest first, `:limit` at
-- most.
-- Concurrency: reads; complete once the lease is taken. Index: progress_pkey, backwards.
SELECT position
FROM posthaste.progress
WHERE route = :route AND shard = :shard
ORDER BY epoch DESC, n DESC
LIMIT :limit
