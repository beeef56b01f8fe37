-- record_rewind: notes that a relay found the log to have gone back in time.
-- Concurrency: appends. Index: rewind_pkey.
INSERT INTO posthaste.rewind (route, relay)
VALUES ($1, $2)
