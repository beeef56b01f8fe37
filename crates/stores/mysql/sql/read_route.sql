-- read_route: what is known about route :route.
-- Concurrency: reads; most registrations find that nothing changes. Index: primary key.
SELECT
    topics,
    shards,
    resizing_to,
    barrier
FROM posthaste_route
WHERE name = :route
