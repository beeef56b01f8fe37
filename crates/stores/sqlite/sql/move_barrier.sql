-- move_barrier: shards of a route that is being resized stop at ?2 instead.
-- Concurrency: in the transaction that found a shard past the old one. Index: primary key.
UPDATE posthaste_route
SET barrier = ?2
WHERE name = ?1 AND barrier IS NOT NULL
