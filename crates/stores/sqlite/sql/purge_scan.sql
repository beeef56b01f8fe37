-- purge_scan: the topics of the next :limit rows after seq :after, up to seq :floor.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (range).
SELECT
    seq,
    topic
FROM posthaste_outbox
WHERE seq > :after AND seq <= :floor
ORDER BY seq
LIMIT :limit
