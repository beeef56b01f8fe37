-- status_routes: every route with its parked messages, counted up to 10,000.
-- Concurrency: reads. Index: parked_key, parked_dead.
SELECT
    route.name,
    route.topics,
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM posthaste.parked
            WHERE parked.route = route.name AND parked.state = 'retrying'
            LIMIT 10000
        ) AS counted
    ),
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM posthaste.parked
            WHERE parked.route = route.name AND parked.state = 'dead'
            LIMIT 10000
        ) AS counted
    )
FROM posthaste.route
ORDER BY route.name
