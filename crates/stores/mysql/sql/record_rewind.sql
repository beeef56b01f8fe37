-- record_rewind: notes that relay ? found the log of route ? to have gone back in time.
-- Concurrency: appends. Index: primary key.
INSERT INTO posthaste_rewind (relay, route, at)
VALUES (?, ?, UTC_TIMESTAMP(6))
