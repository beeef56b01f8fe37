-- read_log: the identity of the log of route :route. There are no timelines, so the second column is
-- empty.
-- Concurrency: reads. Index: primary key.
SELECT
    log,
    ''
FROM posthaste_identity
WHERE route = :route
