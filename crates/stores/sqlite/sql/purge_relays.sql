-- purge_relays: forgets the relays in the JSON array :ids.
-- Concurrency: in the transaction that chose them. Index: primary key.
DELETE FROM posthaste_relay
WHERE id IN (SELECT value FROM json_each(:ids))
