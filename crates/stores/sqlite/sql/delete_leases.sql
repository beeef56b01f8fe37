-- delete_leases: ends the leases of the old layout.
-- Concurrency: in the transaction that completes a resize. Index: primary key.
DELETE FROM posthaste_lease
WHERE route = :route
