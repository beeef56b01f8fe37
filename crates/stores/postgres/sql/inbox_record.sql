-- inbox_record: records the ids `:ids` of consumer `:consumer`, which are sorted; those that are recorded
-- already stay as they are.
-- Concurrency: waits for whoever records one of them in an open transaction. Index: inbox_pkey.
INSERT INTO posthaste.inbox (consumer, id)
SELECT :consumer, id
FROM unnest(:ids::uuid[]) AS given (id)
ON CONFLICT DO NOTHING
