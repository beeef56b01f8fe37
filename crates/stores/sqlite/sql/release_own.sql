-- release_own: ends a lease of this relay, whatever its epoch.
-- Concurrency: nothing of it is in flight. Index: primary key.
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL
WHERE route = :route AND shard = :shard AND relay = :relay
