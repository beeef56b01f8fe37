-- acquire: takes a lease that is free or expired, with a new epoch; no row where it is held.
-- Concurrency: waits for a settlement in flight and for nothing else. A layout that changes
-- meanwhile removes the row. Index: lease_pkey.
UPDATE posthaste.lease
SET
    relay = $3,
    epoch = epoch + 1,
    expires_at = clock_timestamp() + make_interval(secs => $4)
WHERE route = $1
    AND shard = $2
    AND (relay IS NULL OR expires_at <= clock_timestamp())
RETURNING epoch
