-- fetch_route: a route's topics, and the end of the log: no row up to there is still to come. It is
-- read before the log, so that a scan which finds nothing more has seen everything up to it.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key.
SELECT
    route.topics,
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'posthaste_outbox'), 0) AS log_end
FROM posthaste_route AS route
WHERE route.name = ?1
