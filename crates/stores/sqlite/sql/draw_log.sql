-- draw_log: gives a route's log the identity ?2, where it has none.
-- Concurrency: in the transaction that takes the lease. Index: primary key.
INSERT INTO posthaste_identity (route, log)
VALUES (?1, ?2)
ON CONFLICT (route) DO NOTHING
