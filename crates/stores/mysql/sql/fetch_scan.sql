-- fetch_scan: the next rows of the log after seq :after, up to seq :until, :limit at most. Payloads above
-- :small bytes are left out.
-- Concurrency: reads, waits for nobody. The log is written by one at a time, so the rows that are visible
-- have no gap that could still be filled. Index: primary key (range).
SELECT
    seq,
    id,
    topic,
    `key`,
    `type`,
    headers,
    content_type,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', created_at),
    CASE WHEN payload_bytes <= :small THEN payload END,
    payload_bytes
FROM posthaste_log
WHERE seq > :after AND seq <= :until
ORDER BY seq
LIMIT :limit
