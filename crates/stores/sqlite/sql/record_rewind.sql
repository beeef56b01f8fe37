-- record_rewind: notes that relay :relay found the log of route :route to have gone back in time.
-- Concurrency: in the transaction that takes the lease. Index: primary key.
INSERT INTO posthaste_rewind (route, relay)
VALUES (:route, :relay)
