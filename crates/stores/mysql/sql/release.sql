-- release: gives the lease of route :route, shard :shard back, if relay :relay still holds it with epoch
-- :epoch.
-- Concurrency: of this term only. Index: primary key.
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
