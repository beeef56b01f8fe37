-- fence: one row if the lease is still the holder's (route ?, shard ?, relay ?, epoch ?).
-- Concurrency: the lock makes a take-over wait for the end of this transaction; a settlement that
-- waits for a take-over finds another epoch. Index: primary key.
SELECT 1
FROM posthaste_lease
WHERE route = ? AND shard = ? AND relay = ? AND epoch = ?
FOR UPDATE
