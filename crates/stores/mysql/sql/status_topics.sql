-- status_topics: the topics of the newest 10,000 messages, and how many have each; the commonest first.
-- Concurrency: reads, waits for nobody. Index: primary keys (from their ends).
SELECT
    newest.topic,
    COUNT(*)
FROM (
    (SELECT CAST(topic AS BINARY) AS topic FROM posthaste_outbox ORDER BY seq DESC LIMIT 10000)
    UNION ALL
    (SELECT topic FROM posthaste_log ORDER BY seq DESC LIMIT 10000)
    LIMIT 10000
) AS newest
GROUP BY newest.topic
ORDER BY COUNT(*) DESC, newest.topic
