-- purge_relays: forgets relays that were last heard of an hour ago.
-- Concurrency: skips what another cleaner or a late heartbeat has locked. Index: relay_pkey.
DELETE FROM posthaste.relay
WHERE id IN (
    SELECT id
    FROM posthaste.relay
    WHERE expires_at <= clock_timestamp() - interval '1 hour'
    FOR UPDATE SKIP LOCKED
)
