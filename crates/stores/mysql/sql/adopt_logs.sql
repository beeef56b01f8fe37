-- adopt_logs: makes every route's log one that no consumer has heard of.
-- Concurrency: with all leases locked. Index: none, a row per route.
DELETE FROM posthaste_identity
