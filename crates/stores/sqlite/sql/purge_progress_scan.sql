-- purge_progress_scan: the next :limit entries in the journal of route :route, shard :shard, from (epoch :epoch, n :n) on,
-- that one included: whether each is older than :retention microseconds, and its minute.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (range).
SELECT
    epoch,
    n,
    at <= unixepoch('subsec') - :retention / 1000000.0,
    CAST(at / 60 AS INTEGER)
FROM posthaste_progress
WHERE route = :route
    AND shard = :shard
    AND (epoch, n) >= (:epoch, :n)
ORDER BY epoch, n
LIMIT :limit
