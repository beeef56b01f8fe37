-- dead_routes: the routes of dead letters that match. Filter as for dead.
-- Concurrency: reads. Index: parked_id, or parked_dead.
SELECT DISTINCT route
FROM posthaste.parked
WHERE state = 'dead'
    AND ($1::text IS NULL OR route = $1)
    AND ($2::uuid[] IS NULL OR id = ANY ($2))
    AND ($3::text IS NULL OR topic = $3)
    AND ($4::text IS NULL OR last_error_class = $4)
ORDER BY route
