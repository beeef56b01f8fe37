-- read_journal: the latest position of a shard (route ?, shard ?) up to seq ?.
-- Concurrency: in the transaction that takes the lease. Index: primary key, backwards.
SELECT position
FROM posthaste_progress
WHERE route = ? AND shard = ? AND seq <= ?
ORDER BY epoch DESC, n DESC
LIMIT 1
