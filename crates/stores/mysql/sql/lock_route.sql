-- lock_route: what is known about route :route; nobody else changes it until this transaction ends.
-- Concurrency: always locked before the route's leases. Index: primary key.
SELECT
    topics,
    shards,
    resizing_to,
    barrier
FROM posthaste_route
WHERE name = :route
FOR UPDATE
