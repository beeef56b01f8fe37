-- retire: forgets relay :relay.
-- Concurrency: one row; only the relay itself writes it. Index: primary key.
DELETE FROM posthaste_relay
WHERE id = :relay
