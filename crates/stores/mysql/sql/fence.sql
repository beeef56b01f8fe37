-- fence: one row if relay :relay still holds the lease of route :route, shard :shard, with epoch :epoch.
-- Concurrency: the lock makes a take-over wait for the end of this transaction; a settlement that
-- waits for a take-over finds another epoch. Index: primary key.
SELECT 1
FROM posthaste_lease
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
FOR UPDATE
