-- retire: forgets a relay that stops.
-- Concurrency: one row; only the relay itself writes it. Index: primary key.
DELETE FROM posthaste_relay
WHERE id = :relay
