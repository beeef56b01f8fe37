-- inbox_accept_log: log $3 of source $2 for consumer $1, if it is the first of that source.
-- Concurrency: with inbox_lock_logs held. Index: inbox_log_pkey.
INSERT INTO posthaste.inbox_log (consumer, source, log)
SELECT $1, $2, $3
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste.inbox_log
    WHERE consumer = $1 AND source = $2
)
