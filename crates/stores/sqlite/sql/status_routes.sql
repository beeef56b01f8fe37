-- status_routes: every route with both ends of the log and its parked messages, counted up to
-- 10,000.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_state.
SELECT
    route.name,
    route.topics,
    route.shards,
    coalesce((SELECT min(seq) FROM posthaste_outbox) - 1, 0),
    coalesce((SELECT max(seq) FROM posthaste_outbox), 0),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM posthaste_parked AS parked
            WHERE parked.route = route.name AND parked.state = 'retrying'
            LIMIT 10000)
    ),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM posthaste_parked AS parked
            WHERE parked.route = route.name AND parked.state = 'dead'
            LIMIT 10000)
    )
FROM posthaste_route AS route
ORDER BY route.name
