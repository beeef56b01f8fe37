-- waiting_topics: every topic in the log up to seq `:end`, twice: waiting_scan takes it as it is.
-- Concurrency: reads. Index: outbox_pkey (range); reads that part of the log once.
SELECT DISTINCT
    topic,
    topic
FROM posthaste.outbox
WHERE seq <= :end
