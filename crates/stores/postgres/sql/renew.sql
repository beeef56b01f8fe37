-- renew: extends a lease that is still the holder's; never shortens it.
-- Concurrency: of this term only: a late renewal cannot touch a newer one. Index: lease_pkey.
UPDATE posthaste.lease
SET expires_at = greatest(expires_at, clock_timestamp() + make_interval(secs => $5))
WHERE route = $1 AND shard = $2 AND relay = $3 AND epoch = $4
