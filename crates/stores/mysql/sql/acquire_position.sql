-- acquire_position: how far a shard has read; of route ?, shard ?.
-- Concurrency: complete once the lease is taken, and for its holder. Index: primary key (its last entry).
SELECT position
FROM posthaste_progress
WHERE route = ? AND shard = ?
ORDER BY epoch DESC, n DESC
LIMIT 1
