-- rewind_leases: ends every lease of a route, with epochs above $2, which was granted in a history that
-- this server does not have.
-- Concurrency: with route and leases locked. Index: lease_pkey.
UPDATE posthaste.lease
SET relay = NULL, expires_at = NULL, epoch = greatest(epoch, $2) + 1
WHERE route = $1
