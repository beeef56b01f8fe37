-- purge_relays: forgets the relays `:ids`.
-- Concurrency: this transaction has locked them (purge_relays_scan). Index: relay_pkey.
DELETE FROM posthaste.relay
WHERE id = ANY (:ids::uuid[])
