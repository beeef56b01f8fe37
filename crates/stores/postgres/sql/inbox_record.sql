-- inbox_record: records the ids $2 of consumer $1, sorted, those there are left alone.
-- Concurrency: waits for whoever records one of them in an open transaction. Index: inbox_pkey.
INSERT INTO posthaste.inbox (consumer, id)
SELECT $1, id
FROM unnest($2::uuid[]) AS given (id)
ON CONFLICT DO NOTHING
