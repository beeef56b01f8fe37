-- inbox_record_one: records id ?2 for consumer ?1, unless it is there.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
INSERT INTO posthaste_inbox (consumer, id)
VALUES (?1, ?2)
ON CONFLICT DO NOTHING
