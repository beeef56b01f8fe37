-- record_rewind: notes that relay :relay found the log of route :route to have gone back in time.
-- Concurrency: appends. Index: primary key.
INSERT INTO posthaste_rewind (relay, route, at)
VALUES (:relay, :route, UTC_TIMESTAMP(6))
