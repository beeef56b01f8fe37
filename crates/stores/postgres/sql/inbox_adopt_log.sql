-- inbox_adopt_log: log $3 of source $2 for consumer $1, accepted by $4, where another one is known.
-- Concurrency: a plain INSERT. Index: inbox_log_pkey.
INSERT INTO posthaste.inbox_log (consumer, source, log, accepted_by)
SELECT $1, $2, $3, $4
WHERE EXISTS (
    SELECT 1
    FROM posthaste.inbox_log
    WHERE consumer = $1 AND source = $2
)
ON CONFLICT DO NOTHING
