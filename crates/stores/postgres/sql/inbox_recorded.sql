-- inbox_recorded: those of the ids `:ids` that are recorded for consumer `:consumer`.
-- Concurrency: reads what is committed. Index: inbox_pkey.
SELECT id
FROM posthaste.inbox
WHERE consumer = :consumer AND id = ANY (:ids::uuid[])
