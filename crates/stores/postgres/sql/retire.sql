-- retire: forgets relay `:relay`.
-- Concurrency: its own row only. Index: relay_pkey.
DELETE FROM posthaste.relay
WHERE id = :relay
