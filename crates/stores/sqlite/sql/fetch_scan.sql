-- fetch_scan: what decides about each of the next ?3 rows after seq ?1, up to seq ?2.
-- The payload itself is not read: octet_length only looks at the row's header.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (range).
SELECT
    seq,
    topic,
    key,
    id,
    octet_length(payload) AS payload_bytes
FROM posthaste_outbox
WHERE seq > ?1 AND seq <= ?2
ORDER BY seq
LIMIT ?3
