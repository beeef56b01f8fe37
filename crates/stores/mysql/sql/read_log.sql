-- read_log: the identity of the log of route ?.
-- Concurrency: reads. Index: primary key.
SELECT log
FROM posthaste_identity
WHERE route = ?
