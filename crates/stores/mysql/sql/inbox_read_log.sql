-- inbox_read_log: whether log ? is accepted for consumer ?, source ? and topic ?, or any.
-- Concurrency: locks the row for reading, so that it reads the latest. Index: primary key.
SELECT COUNT(*)
FROM posthaste_inbox_log
WHERE log = ? AND consumer = ? AND source = ? AND topic IN (?, '')
LOCK IN SHARE MODE
