-- write_route: a route's topics, its shards, and the resize under way.
-- Concurrency: in the transaction that read it with the write lock held. Index: primary key.
UPDATE posthaste_route
SET
    topics = :topics,
    shards = :shards,
    resizing_to = :resizing_to,
    barrier = :barrier
WHERE name = :route
