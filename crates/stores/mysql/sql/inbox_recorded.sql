-- inbox_recorded: which ids are recorded for a consumer; `? AND id IN (?, …)` is added.
-- Concurrency: reads what is committed. Index: primary key.
SELECT id
FROM posthaste_inbox
WHERE consumer =
