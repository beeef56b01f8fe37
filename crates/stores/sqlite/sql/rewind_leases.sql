-- rewind_leases: ends every lease of a route, with epochs above :epoch, which was granted in a history that
-- this file does not have.
-- Concurrency: in the transaction that renames the log. Index: primary key (range).
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL,
    epoch = max(epoch, :epoch) + 1
WHERE route = :route
