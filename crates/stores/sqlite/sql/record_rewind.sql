-- record_rewind: notes that relay ?2 found the log of route ?1 to have gone back in time.
-- Concurrency: in the transaction that takes the lease. Index: primary key.
INSERT INTO posthaste_rewind (route, relay)
VALUES (?1, ?2)
