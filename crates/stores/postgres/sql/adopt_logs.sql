-- adopt_logs: forgets the names of all logs; holders draw others, that no consumer has heard of.
-- Concurrency: with the leases locked. Index: none, a row per route.
DELETE FROM posthaste.identity
