-- purge_relays_scan: relays that were not heard of for an hour after they should have been, locked.
-- Concurrency: skips what somebody has locked. Index: none, a row per relay.
SELECT id
FROM posthaste_relay
WHERE expires_at <= UTC_TIMESTAMP(6) - INTERVAL 1 HOUR
FOR UPDATE SKIP LOCKED
