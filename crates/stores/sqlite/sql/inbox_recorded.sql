-- inbox_recorded: which ids of the JSON array :ids are recorded for consumer :consumer.
-- Concurrency: reads. Index: primary key.
SELECT id
FROM posthaste_inbox
WHERE consumer = :consumer AND id IN (SELECT unhex(replace(value, '-', '')) FROM json_each(:ids))
