-- inbox_read_log: whether log :log of source :source is accepted for consumer :consumer and topic :topic, or any.
-- Concurrency: reads. Index: primary key.
SELECT EXISTS (
    SELECT 1
    FROM posthaste_inbox_log
    WHERE consumer = :consumer AND source = :source AND topic IN (:topic, '') AND log = :log)
