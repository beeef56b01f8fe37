-- inbox_record: records the ids of the JSON array ?2 (in hex) for consumer ?1; those there are left
-- alone.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
INSERT INTO posthaste_inbox (consumer, id)
SELECT ?1, unhex(value)
FROM json_each(?2)
WHERE true
ON CONFLICT DO NOTHING
