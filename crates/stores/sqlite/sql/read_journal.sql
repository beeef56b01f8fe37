-- read_journal: the latest position of a shard (route ?1, shard ?2) up to seq ?3.
-- Concurrency: in the transaction that takes the lease. Index: primary key, backwards.
SELECT position
FROM posthaste_progress
WHERE route = ?1 AND shard = ?2 AND seq <= ?3
ORDER BY epoch DESC, n DESC
LIMIT 1
