-- purge_relays_scan: relays that were not heard of for an hour after they should have been.
-- Concurrency: in the transaction that removes them. Index: none (one row a relay).
SELECT id
FROM posthaste_relay
WHERE expires_at <= unixepoch('subsec') - 3600
