-- purge_relays_scan: relays that expired an hour ago or earlier, locked.
-- Concurrency: skips relays that another purge or a late heartbeat has locked. Index: none, a row per
-- relay.
SELECT id
FROM posthaste.relay
WHERE expires_at <= clock_timestamp() - interval '1 hour'
FOR UPDATE SKIP LOCKED
