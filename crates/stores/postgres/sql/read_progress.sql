-- read_progress: the latest position of a shard.
-- Concurrency: reads; complete once the lease is taken, and for its holder. Index: progress_pkey, backwards.
SELECT position
FROM posthaste.progress
WHERE route = $1 AND shard = $2
ORDER BY epoch DESC, n DESC
LIMIT 1
