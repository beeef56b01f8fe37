-- release: gives a lease back, if it is still the holder's (route ?, shard ?, relay ?, epoch ?).
-- Concurrency: of this term only. Index: primary key.
UPDATE posthaste_lease
SET
    relay = NULL,
    expires_at = NULL
WHERE route = ? AND shard = ? AND relay = ? AND epoch = ?
