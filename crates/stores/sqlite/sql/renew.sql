-- renew: extends a lease to ?5 seconds from now, never back, if it is still the holder's.
-- Concurrency: one row, fenced by equality. Index: primary key.
UPDATE posthaste_lease
SET expires_at = max(expires_at, unixepoch('subsec') + ?5)
WHERE route = ?1 AND shard = ?2 AND relay = ?3 AND epoch = ?4
