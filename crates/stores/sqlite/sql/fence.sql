-- fence: the database's time, if the lease is still the holder's; no row otherwise.
-- Concurrency: first statement of a write transaction, so the answer holds until commit.
-- Index: primary key.
SELECT unixepoch('subsec')
FROM posthaste_lease
WHERE route = ?1 AND shard = ?2 AND relay = ?3 AND epoch = ?4
