-- waiting_scan: the next :limit rows after seq :after, up to seq :end, whose topic, in hex, is in the JSON array
-- :topics.
-- Concurrency: in the transaction that changes a route's topics. Index: primary key (range).
SELECT
    seq,
    key,
    NULL
FROM posthaste_outbox
WHERE seq > :after
    AND seq <= :end
    AND hex(topic) IN (SELECT value FROM json_each(:topics))
ORDER BY seq
LIMIT :limit
