-- fetch: the next rows of the log: payloads above ? bytes are left out; after seq ?, up to seq ?;
-- ? rows at most.
-- Concurrency: reads, waits for nobody. The log is written by one at a time, so what is visible has
-- no gap that could still be filled. Index: primary key (range).
SELECT
    seq,
    id,
    topic,
    `key`,
    `type`,
    headers,
    content_type,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', created_at),
    CASE WHEN payload_bytes <= ? THEN payload END,
    payload_bytes
FROM posthaste_log
WHERE seq > ? AND seq <= ?
ORDER BY seq
LIMIT ?
