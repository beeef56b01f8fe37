-- read_route: what is known about a route.
-- Concurrency: asked without a lock first, and again in the transaction that changes it.
-- Index: primary key.
SELECT
    topics,
    shards,
    resizing_to,
    barrier
FROM posthaste_route
WHERE name = :route
