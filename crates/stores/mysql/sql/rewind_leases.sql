-- rewind_leases: ends every lease, with epochs above ?, which was granted in a history that this server
-- does not have; of route ?.
-- Concurrency: with route and leases locked. Index: primary key (range).
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL,
    epoch = GREATEST(epoch, ?) + 1
WHERE route = ?
