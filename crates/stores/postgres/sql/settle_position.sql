-- settle_position: appends progress if the lease is still the holder's, and says which transaction
-- does so; no row where it is not.
-- Concurrency: as settle_fence. Appends only, so a long-running reader makes it no slower.
-- Index: lease_pkey, progress_pkey.
WITH fence AS MATERIALIZED (
    SELECT route, shard, epoch
    FROM posthaste.lease
    WHERE route = $1 AND shard = $2 AND relay = $3 AND epoch = $4
    FOR SHARE
)
INSERT INTO posthaste.progress (route, shard, epoch, position, seq)
SELECT route, shard, epoch, $5, $6
FROM fence
RETURNING pg_current_xact_id()::text
