-- waiting_topics: every topic in the log up to seq ?.
-- Concurrency: with route and leases locked. Index: primary key; reads the log once.
SELECT DISTINCT topic
FROM posthaste_log
WHERE seq <= ?
