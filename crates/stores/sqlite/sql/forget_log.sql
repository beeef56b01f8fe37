-- forget_log: makes the log of a route one that no consumer has heard of.
-- Concurrency: in the transaction that ends its leases. Index: primary key.
DELETE FROM posthaste_identity
WHERE route = :route
