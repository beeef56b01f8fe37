-- inbox_accept_log: log :log of source :source for consumer :consumer and topic :topic, if it is the topic's first and
-- not accepted for any topic.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
INSERT INTO posthaste_inbox_log (consumer, source, log, topic)
SELECT :consumer, :source, :log, :topic
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_inbox_log
    WHERE consumer = :consumer AND source = :source AND (topic = :topic OR (topic = '' AND log = :log)))
