-- fetch_epoch: the epoch of route ?, shard ?; no row where there is no such shard.
-- Concurrency: reads, waits for nobody. Asked after the log was read: where it is still the holder's,
-- nobody else had parked or removed anything by then. Index: primary key.
SELECT epoch
FROM posthaste_lease
WHERE route = ? AND shard = ?
