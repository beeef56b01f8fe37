-- fence: a row if the lease is still the holder's.
-- Concurrency: first statement of a write transaction, so the answer holds until commit.
-- Index: primary key.
SELECT 1
FROM posthaste_lease
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
