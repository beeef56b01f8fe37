-- renew: extends a lease to ? microseconds from now, never back, if it is still the holder's (route
-- ?, shard ?, relay ?, epoch ?).
-- Concurrency: of this term only: a late renewal cannot touch a newer one. Index: primary key.
UPDATE posthaste_lease
SET expires_at = GREATEST(expires_at, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)
WHERE route = ? AND shard = ? AND relay = ? AND epoch = ?
