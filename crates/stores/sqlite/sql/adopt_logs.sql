-- adopt_logs: makes every route's log one that no consumer has heard of.
-- Concurrency: in the transaction that ends the leases. Index: none, a row per route.
DELETE FROM posthaste_identity
