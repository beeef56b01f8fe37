-- forget_log: makes the log of a route, or of all, one that no consumer has heard of.
-- Concurrency: with the leases locked. Index: identity_pkey.
DELETE FROM posthaste.identity
WHERE route = $1 OR $1 IS NULL
