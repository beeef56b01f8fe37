-- fetch_epoch: the epoch of route ?1, shard ?2; no row where there is no such shard.
-- Concurrency: reads a snapshot, waits for nobody. Asked after the log was read: where it is still the
-- holder's, nobody else had parked or removed anything by then. Index: primary key.
SELECT epoch
FROM posthaste_lease
WHERE route = ?1 AND shard = ?2
