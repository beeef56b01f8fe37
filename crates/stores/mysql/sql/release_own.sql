-- release_own: ends a lease of this relay, whatever its epoch (route ?, shard ?, relay ?).
-- Concurrency: nothing of it is in flight. Index: primary key.
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL
WHERE route = ? AND shard = ? AND relay = ?
