-- delete_leases: ends every lease of route `:route`, for a new layout.
-- Concurrency: with route and leases locked; whoever waits for a row finds it gone.
-- Index: lease_pkey.
DELETE FROM posthaste.lease
WHERE route = :route
