-- inbox_accept_log: for consumer ?, source ?, log ?, if it is the first of that source (consumer ?,
-- source ? again).
-- Concurrency: locks the place where the source's logs are, so one at a time decides; two that meet
-- there may deadlock, and then one goes on. Index: primary key.
INSERT INTO posthaste_inbox_log (consumer, source, log)
SELECT ?, ?, ?
FROM DUAL
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_inbox_log AS known
    WHERE known.consumer = ? AND known.source = ?
    FOR UPDATE)
