-- fence_leases: ends every lease of route `:route`, whoever holds it, each with a new epoch.
-- Concurrency: with the leases locked. Index: lease_pkey.
UPDATE posthaste.lease
SET relay = NULL, expires_at = NULL, epoch = epoch + 1
WHERE route = :route
