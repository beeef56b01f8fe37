-- inbox_recorded: which ids of the JSON array ?2 (in hex) are recorded for consumer ?1.
-- Concurrency: reads. Index: primary key.
SELECT id
FROM posthaste_inbox
WHERE consumer = ?1 AND id IN (SELECT unhex(value) FROM json_each(?2))
