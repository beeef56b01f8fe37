-- release: gives a lease back, if it is still the holder's.
-- Concurrency: one row, fenced by equality. Index: primary key.
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL
WHERE route = ?1 AND shard = ?2 AND relay = ?3 AND epoch = ?4
