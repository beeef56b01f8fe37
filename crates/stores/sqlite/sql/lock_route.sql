-- lock_route: what is known about a route, which stays so until the transaction ends.
-- Concurrency: the transaction holds the write lock.
-- Index: primary key.
SELECT
    topics,
    shards,
    resizing_to,
    barrier
FROM posthaste_route
WHERE name = :route
