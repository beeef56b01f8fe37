-- acquire: gives shard :shard of a route to relay :relay for :ttl microseconds, if its lease is free.
-- Concurrency: in a transaction that holds the write lock. Index: primary key.
UPDATE posthaste_lease
SET
    relay = :relay,
    epoch = epoch + 1,
    expires_at = unixepoch('subsec') + :ttl / 1000000.0
WHERE route = :route
    AND shard = :shard
    AND (relay IS NULL OR expires_at <= unixepoch('subsec'))
