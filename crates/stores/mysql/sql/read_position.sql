-- read_position: how far shard :shard of route :route has read.
-- Concurrency: complete once the lease is taken, and for its holder. Index: primary key (its last
-- entry).
SELECT position
FROM posthaste_progress
WHERE route = :route AND shard = :shard
ORDER BY epoch DESC, n DESC
LIMIT 1
