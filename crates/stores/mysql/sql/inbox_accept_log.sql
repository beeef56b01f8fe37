-- inbox_accept_log: consumer :consumer accepts log :log of source :source for topic :topic, if it is the
-- topic's first log and not accepted for any topic.
-- Concurrency: locks the place where the source's logs are, so one at a time decides; two that meet
-- there may deadlock, and then one goes on. Index: primary key.
INSERT INTO posthaste_inbox_log (consumer, source, log, topic)
SELECT :consumer, :source, UNHEX(REPLACE(:log, '-', '')), :topic
FROM DUAL
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_inbox_log AS known
    WHERE known.consumer = :consumer
        AND known.source = :source
        AND (
            known.topic = :topic
            OR (known.topic = '' AND known.log = UNHEX(REPLACE(:log, '-', ''))))
    FOR UPDATE)
