-- inbox_record: records the ids of the JSON array :ids for consumer :consumer; those there are left
-- alone.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
INSERT INTO posthaste_inbox (consumer, id)
SELECT :consumer, unhex(replace(value, '-', ''))
FROM json_each(:ids)
WHERE true
ON CONFLICT DO NOTHING
