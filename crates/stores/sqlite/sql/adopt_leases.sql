-- adopt_leases: ends every lease of every route.
-- Concurrency: in the transaction that adopts. Index: none, a row per shard.
UPDATE posthaste_lease
SET
    relay = NULL,
    epoch = epoch + 1,
    expires_at = NULL
