-- adopt_barriers: resizes under way stop at a position of this server.
-- Concurrency: with the leases locked. Index: none, a row per route.
UPDATE posthaste.route
SET barrier = $1
WHERE barrier IS NOT NULL
