-- fetch_scan: the next :limit messages after seq :after, up to seq :until. A payload of more than :small
-- bytes is not read: octet_length only looks at the row's header.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (range).
SELECT
    seq,
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    CAST(round(created_at * 1000) AS INTEGER) * 1000,
    CASE WHEN octet_length(payload) <= :small THEN payload END,
    octet_length(payload)
FROM posthaste_outbox
WHERE seq > :after AND seq <= :until
ORDER BY seq
LIMIT :limit
