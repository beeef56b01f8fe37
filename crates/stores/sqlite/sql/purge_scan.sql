-- purge_scan: the topics of the next ?3 rows after seq ?1, up to seq ?2.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (range).
SELECT
    seq,
    topic
FROM posthaste_outbox
WHERE seq > ?1 AND seq <= ?2
ORDER BY seq
LIMIT ?3
