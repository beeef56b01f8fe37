-- adopt_lease: ends a lease and gives its shard a position of this server.
-- Concurrency: with the leases locked. Index: lease_pkey.
WITH ended AS (
    UPDATE posthaste.lease
    SET relay = NULL, expires_at = NULL, epoch = epoch + 1
    WHERE route = $1 AND shard = $2
    RETURNING route, shard, epoch
)
INSERT INTO posthaste.progress (route, shard, epoch, position, seq)
SELECT route, shard, epoch, $3, $4
FROM ended
