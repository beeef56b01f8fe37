-- adopt_lease: ends the lease of shard `:shard` of route `:route` and gives the shard `:position`, up to
-- seq `:seq`, a position of this server.
-- Concurrency: with the leases locked. Index: lease_pkey.
WITH ended AS (
    UPDATE posthaste.lease
    SET relay = NULL, expires_at = NULL, epoch = epoch + 1
    WHERE route = :route AND shard = :shard
    RETURNING route, shard, epoch
)
INSERT INTO posthaste.progress (route, shard, epoch, position, seq)
SELECT route, shard, epoch, :position, :seq
FROM ended
