-- inbox_accept_log: log ?3 of source ?2 for consumer ?1 and topic ?4, if it is the topic's first and
-- not accepted for any topic.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
INSERT INTO posthaste_inbox_log (consumer, source, log, topic)
SELECT ?1, ?2, ?3, ?4
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_inbox_log
    WHERE consumer = ?1 AND source = ?2 AND (topic = ?4 OR (topic = '' AND log = ?3)))
