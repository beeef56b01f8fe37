-- renew: extends the lease of route :route, shard :shard to :ttl from now, never back, if relay :relay
-- still holds it with epoch :epoch.
-- Concurrency: of this term only: a late renewal cannot touch a newer one. Index: primary key.
UPDATE posthaste_lease
SET expires_at = GREATEST(expires_at, UTC_TIMESTAMP(6) + INTERVAL :ttl MICROSECOND)
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
