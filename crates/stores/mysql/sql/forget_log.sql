-- forget_log: makes the log of route :route one that no consumer has heard of.
-- Concurrency: with the route's leases locked. Index: primary key.
DELETE FROM posthaste_identity
WHERE route = :route
