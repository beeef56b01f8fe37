-- read_position: the latest position of shard `:shard` of route `:route`.
-- Concurrency: reads; complete once the lease is taken, and for its holder. Index: progress_pkey,
-- backwards.
SELECT position
FROM posthaste.progress
WHERE route = :route AND shard = :shard
ORDER BY epoch DESC, n DESC
LIMIT 1
