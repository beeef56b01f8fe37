-- inbox_read_log: whether consumer :consumer accepts log :log of source :source for topic :topic, or for
-- any.
-- Concurrency: locks the row for reading, so that it reads the latest. Index: primary key.
SELECT COUNT(*)
FROM posthaste_inbox_log
WHERE log = UNHEX(REPLACE(:log, '-', ''))
    AND consumer = :consumer
    AND source = :source
    AND topic IN (:topic, '')
LOCK IN SHARE MODE
