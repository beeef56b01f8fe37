-- acquire: gives the lease of route :route, shard :shard, if it is free or expired, to relay :relay for
-- :ttl, with a new epoch. Changes no row where another relay holds it.
-- Concurrency: waits for a settlement in flight. A layout that changes meanwhile removes the row.
-- Index: primary key.
UPDATE posthaste_lease
SET
    relay = :relay,
    epoch = epoch + 1,
    expires_at = UTC_TIMESTAMP(6) + INTERVAL :ttl MICROSECOND
WHERE route = :route
    AND shard = :shard
    AND (relay IS NULL OR expires_at <= UTC_TIMESTAMP(6))
