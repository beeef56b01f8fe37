-- fence_leases: ends every lease of a route, whoever holds it.
-- Concurrency: with route and leases locked. Index: lease_pkey.
UPDATE posthaste.lease
SET relay = NULL, expires_at = NULL, epoch = epoch + 1
WHERE route = $1
