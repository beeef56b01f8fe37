-- purge_scan: the topics of the next rows after seq :after, up to seq :floor; :limit at most.
-- Concurrency: reads, waits for nobody. Index: primary key (range).
SELECT
    seq,
    topic
FROM posthaste_log
WHERE seq > :after AND seq <= :floor
ORDER BY seq
LIMIT :limit
