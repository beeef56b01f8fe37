-- inbox_recorded: which of the ids $2 are recorded for consumer $1.
-- Concurrency: reads what is committed. Index: inbox_pkey.
SELECT id
FROM posthaste.inbox
WHERE consumer = $1 AND id = ANY ($2)
