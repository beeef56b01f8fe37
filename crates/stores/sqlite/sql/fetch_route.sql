-- fetch_route: a route's topics, the end of the log, and the time. No row up to the end is still to come.
-- It is read before the log, so that a scan which finds nothing more has seen everything up to it.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key.
SELECT
    route.topics,
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'posthaste_outbox'), 0),
    CAST(unixepoch('subsec') * 1000000 AS INTEGER)
FROM posthaste_route AS route
WHERE route.name = :route
