-- adopt_barriers: resizes under way stop at `:barrier`, a position of this server.
-- Concurrency: with the leases locked. Index: none, a row per route.
UPDATE posthaste.route
SET barrier = :barrier
WHERE barrier IS NOT NULL
