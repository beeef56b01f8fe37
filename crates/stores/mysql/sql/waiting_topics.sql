-- waiting_topics: every topic in the log up to seq :end, twice: waiting_scan knows it by itself.
-- Concurrency: with route and leases locked. Index: primary key; reads the log once.
SELECT DISTINCT
    topic,
    topic
FROM posthaste_log
WHERE seq <= :end
