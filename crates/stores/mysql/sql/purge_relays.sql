-- purge_relays: forgets the relays whose ids are in the JSON array :ids.
-- Concurrency: in the transaction of purge_relays_scan, which locked them. Index: primary key (one
-- lookup a row).
DELETE relay
FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii PATH '$')) AS gone
STRAIGHT_JOIN posthaste_relay AS relay FORCE INDEX (PRIMARY) ON relay.id = gone.id
