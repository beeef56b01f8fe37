-- purge_progress_scan: whether each of the next :limit entries in the journal of route :route, shard
-- :shard is older than :retention, and its minute; from entry (:epoch, :n) on, that one included.
-- Concurrency: reads. Index: primary key (range).
SELECT
    epoch,
    n,
    at <= UTC_TIMESTAMP(6) - INTERVAL :retention MICROSECOND,
    TIMESTAMPDIFF(MINUTE, '1970-01-01 00:00:00', at)
FROM posthaste_progress
WHERE route = :route
    AND shard = :shard
    AND (epoch > :epoch OR (epoch = :epoch AND n >= :n))
ORDER BY epoch, n
LIMIT :limit
