-- inbox_create_lane: a row for lane $3, topic $4, log $2, of consumer $1, unless it is there.
-- Concurrency: waits for whoever makes the same. Index: inbox_lane_pkey.
INSERT INTO posthaste.inbox_lane (consumer, log, lane, topic)
VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
