-- inbox_accept_log: for consumer ?, source ?, log ?, topic ?, if it is the topic's first and not
-- accepted for any topic (consumer ?, source ?, topic ?, log ? again).
-- Concurrency: locks the place where the source's logs are, so one at a time decides; two that meet
-- there may deadlock, and then one goes on. Index: primary key.
INSERT INTO posthaste_inbox_log (consumer, source, log, topic)
SELECT ?, ?, ?, ?
FROM DUAL
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_inbox_log AS known
    WHERE known.consumer = ?
        AND known.source = ?
        AND (known.topic = ? OR (known.topic = '' AND known.log = ?))
    FOR UPDATE)
