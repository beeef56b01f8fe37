-- read_journal: the positions a shard had, the latest first, $3 at most.
-- Concurrency: reads; complete once the lease is taken. Index: progress_pkey, backwards.
SELECT position
FROM posthaste.progress
WHERE route = $1 AND shard = $2
ORDER BY epoch DESC, n DESC
LIMIT $3
