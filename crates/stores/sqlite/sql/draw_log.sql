-- draw_log: gives a route's log the identity :log, where it has none.
-- Concurrency: in the transaction that takes the lease. Index: primary key.
INSERT INTO posthaste_identity (route, log)
VALUES (:route, :log)
ON CONFLICT (route) DO NOTHING
