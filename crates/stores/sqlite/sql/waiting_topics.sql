-- waiting_topics: every topic in the log up to seq :end, and its bytes in hex.
-- Concurrency: in the transaction that changes a route's topics. Index: primary key; reads the log
-- once, without payloads.
SELECT DISTINCT
    topic,
    hex(topic)
FROM posthaste_outbox
WHERE seq <= :end
