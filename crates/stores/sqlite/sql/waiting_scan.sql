-- waiting_scan: the next ?4 rows after seq ?1, up to seq ?2, whose topic, in hex, is in the JSON array
-- ?3.
-- Concurrency: in the transaction that changes a route's topics. Index: primary key (range).
SELECT
    seq,
    topic,
    key
FROM posthaste_outbox
WHERE seq > ?1
    AND seq <= ?2
    AND hex(topic) IN (SELECT value FROM json_each(?3))
ORDER BY seq
LIMIT ?4
