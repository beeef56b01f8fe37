-- read_log: the name of a route's log. A file has no timelines.
-- Concurrency: in the transaction that takes the lease. Index: primary key.
SELECT
    log,
    ''
FROM posthaste_identity
WHERE route = :route
