-- status_topics: the topics of the newest 10,000 messages, and how many have each.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (from its end).
SELECT
    topic,
    count(*)
FROM (SELECT topic FROM posthaste_outbox ORDER BY seq DESC LIMIT 10000)
GROUP BY topic
ORDER BY count(*) DESC, topic
LIMIT 100
