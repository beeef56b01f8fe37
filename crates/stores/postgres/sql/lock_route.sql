-- lock_route: as read_route, and nobody else changes the route until this transaction ends.
-- Concurrency: always locked before the route's leases. Index: route_pkey.
SELECT
    array_to_json(topics)::text,
    shards,
    resizing_to,
    barrier
FROM posthaste.route
WHERE name = :route
FOR UPDATE
