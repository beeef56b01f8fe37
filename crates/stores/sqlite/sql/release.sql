-- release: gives a lease back, if it is still the holder's.
-- Concurrency: one row, fenced by equality. Index: primary key.
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL
WHERE route = :route AND shard = :shard AND relay = :relay AND epoch = :epoch
