-- inbox_read_log: whether log $3 of source $2 is accepted for consumer $1 and topic $4, or any.
-- Concurrency: reads. Index: inbox_log_pkey.
SELECT EXISTS (
    SELECT 1
    FROM posthaste.inbox_log
    WHERE consumer = $1 AND source = $2 AND topic IN ($4, '') AND log = $3
)
