-- acquire_lease: gives a shard to a relay for ?4 seconds, and says the new epoch.
-- Concurrency: in the transaction that saw it free. Index: primary key.
UPDATE posthaste_lease
SET
    relay = ?3,
    epoch = epoch + 1,
    expires_at = unixepoch('subsec') + ?4
WHERE route = ?1 AND shard = ?2
RETURNING epoch
