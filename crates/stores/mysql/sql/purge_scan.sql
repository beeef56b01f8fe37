-- purge_scan: the topics of the next rows after seq ?, up to seq ?; ? at most.
-- Concurrency: reads, waits for nobody. Index: primary key (range).
SELECT
    seq,
    topic
FROM posthaste_log
WHERE seq > ? AND seq <= ?
ORDER BY seq
LIMIT ?
