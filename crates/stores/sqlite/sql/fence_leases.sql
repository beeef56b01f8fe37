-- fence_leases: ends every lease of a route, whoever holds it.
-- Concurrency: in the transaction that changes the route's topics or discards what is retrying. Index: primary key (range).
UPDATE posthaste_lease
SET
    relay = NULL,
    epoch = epoch + 1,
    expires_at = NULL
WHERE route = :route
