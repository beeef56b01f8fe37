-- acquire: gives a lease that is free or expired to relay ? for ? microseconds, with a new epoch;
-- of route ?, shard ?. No row where it is held.
-- Concurrency: waits for a settlement in flight. A layout that changes meanwhile removes the row.
-- Index: primary key.
UPDATE posthaste_lease
SET
    relay = ?,
    epoch = epoch + 1,
    expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE route = ?
    AND shard = ?
    AND (relay IS NULL OR expires_at <= UTC_TIMESTAMP(6))
