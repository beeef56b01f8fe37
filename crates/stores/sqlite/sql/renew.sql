-- renew: extends a lease to :ttl microseconds from now, never back, if it is still the holder's.
-- Concurrency: one row, fenced by equality. Index: primary key.
UPDATE posthaste_lease
SET expires_at = max(expires_at, unixepoch('subsec') + :ttl / 1000000.0)
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
