-- write_route: writes the topics :topics of route :route, its shards :shards, and the resize under way (to
-- :resizing_to shards, at position :barrier).
-- Concurrency: with the route's row locked. Index: primary key.
UPDATE posthaste_route
SET
    topics = :topics,
    shards = :shards,
    resizing_to = :resizing_to,
    barrier = :barrier
WHERE name = :route
