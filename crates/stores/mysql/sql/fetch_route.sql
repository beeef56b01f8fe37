-- fetch_route: the topics of route :route, the end of the log (no row up to there is still to come), and
-- the time.
-- Concurrency: reads, waits for nobody. Index: primary keys.
SELECT
    route.topics,
    (SELECT seq FROM posthaste_sequencer WHERE one = 1),
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))
FROM posthaste_route AS route
WHERE route.name = :route
