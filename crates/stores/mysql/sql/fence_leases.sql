-- fence_leases: ends every lease of route :route, whoever holds it.
-- Concurrency: with route and leases locked. Index: primary key (range).
UPDATE posthaste_lease
SET
    relay = NULL,
    epoch = epoch + 1,
    expires_at = NULL
WHERE route = :route
