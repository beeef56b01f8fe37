-- purge_progress_scan: whether each of the next entries in a journal is older than ? microseconds, and
-- its minute; of route ?, shard ?, from (epoch ?, or the same epoch ? and n ?) on, that one included;
-- ? entries.
-- Concurrency: reads. Index: primary key (range).
SELECT
    epoch,
    n,
    at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND,
    TIMESTAMPDIFF(MINUTE, '1970-01-01 00:00:00', at)
FROM posthaste_progress
WHERE route = ?
    AND shard = ?
    AND (epoch > ? OR (epoch = ? AND n >= ?))
ORDER BY epoch, n
LIMIT ?
