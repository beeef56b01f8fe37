-- record_rewind: notes that relay `:relay` found that the log of route `:route` went back in time.
-- Concurrency: appends. Index: rewind_pkey.
INSERT INTO posthaste.rewind (route, relay)
VALUES (:route, :relay)
