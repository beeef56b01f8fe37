-- release_own: ends the lease of route :route, shard :shard, if relay :relay holds it, whatever its epoch.
-- Concurrency: no settlement of it is in flight. Index: primary key.
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL
WHERE route = :route AND shard = :shard AND relay = :relay
