-- settle_fence: one row if the lease is still the holder's.
-- Concurrency: the share lock makes a take-over wait for the end of this transaction; a settlement
-- that waits for a take-over finds another epoch. Index: lease_pkey.
SELECT 1
FROM posthaste.lease
WHERE route = $1 AND shard = $2 AND relay = $3 AND epoch = $4
FOR SHARE
