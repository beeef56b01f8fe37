-- purge_progress_scan: the next ?6 entries in the journal of route ?2, shard ?3, from (epoch ?4, n ?5) on,
-- that one included: whether each is older than ?1 seconds, and its minute.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (range).
SELECT
    epoch,
    n,
    at <= unixepoch('subsec') - ?1,
    CAST(at / 60 AS INTEGER)
FROM posthaste_progress
WHERE route = ?2
    AND shard = ?3
    AND (epoch, n) >= (?4, ?5)
ORDER BY epoch, n
LIMIT ?6
