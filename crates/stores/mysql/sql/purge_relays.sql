-- purge_relays: forgets relays that were not heard of for an hour after they should have been.
-- Concurrency: rows that nobody writes any more. Index: none, a row per relay.
DELETE FROM posthaste_relay
WHERE expires_at <= UTC_TIMESTAMP(6) - INTERVAL 1 HOUR
