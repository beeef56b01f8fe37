-- inbox_adopt_log: for consumer ?, source ?, log ?, accepted by ?, where another one is known
-- (consumer ?, source ? again).
-- Concurrency: a plain INSERT. Index: primary key.
INSERT IGNORE INTO posthaste_inbox_log (consumer, source, log, accepted_by)
SELECT ?, ?, ?, ?
FROM DUAL
WHERE EXISTS (
    SELECT 1
    FROM posthaste_inbox_log AS known
    WHERE known.consumer = ? AND known.source = ?)
