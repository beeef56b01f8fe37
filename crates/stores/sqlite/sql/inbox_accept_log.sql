-- inbox_accept_log: log ?3 of source ?2 for consumer ?1, if it is the first of that source.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
INSERT INTO posthaste_inbox_log (consumer, source, log)
SELECT ?1, ?2, ?3
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_inbox_log
    WHERE consumer = ?1 AND source = ?2)
