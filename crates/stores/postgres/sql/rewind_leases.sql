-- rewind_leases: ends every lease of route `:route`, with epochs above `:epoch`, which was granted in a
-- history that this server does not have.
-- Concurrency: with route and leases locked. Index: lease_pkey.
UPDATE posthaste.lease
SET relay = NULL, expires_at = NULL, epoch = greatest(epoch, :epoch) + 1
WHERE route = :route
