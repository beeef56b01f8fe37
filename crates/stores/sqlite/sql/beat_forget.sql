-- beat_forget: relays that were not heard of for an hour after they should have been.
-- Concurrency: in the transaction of beat_relay. Index: none (one row a relay).
DELETE FROM posthaste_relay
WHERE expires_at <= unixepoch('subsec') - 3600
