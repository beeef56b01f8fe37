-- status_topics: the 100 commonest topics among the newest 10,000 messages that no route takes, and how
-- many messages have each. Topics that a route takes would not be told anyway.
-- Concurrency: reads. Index: outbox_pkey, backwards.
SELECT
    newest.topic,
    count(*)
FROM (
    SELECT topic
    FROM posthaste.outbox
    ORDER BY seq DESC
    LIMIT 10000
) AS newest
WHERE NOT EXISTS (
    SELECT
    FROM posthaste.route
    WHERE newest.topic LIKE ANY (route.likes)
)
GROUP BY newest.topic
ORDER BY count(*) DESC, newest.topic
LIMIT 100
