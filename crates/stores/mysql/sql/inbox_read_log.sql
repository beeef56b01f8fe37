-- inbox_read_log: whether log ? is accepted for consumer ? and source ?.
-- Concurrency: locks the row for reading, so that it reads the latest. Index: primary key.
SELECT COUNT(*)
FROM posthaste_inbox_log
WHERE log = ? AND consumer = ? AND source = ?
LOCK IN SHARE MODE
