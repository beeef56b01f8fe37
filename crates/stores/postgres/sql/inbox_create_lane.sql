-- inbox_create_lane: adds lane `:lane` of topic `:topic` and log `:log` of consumer `:consumer`, unless it
-- is there.
-- Concurrency: waits for whoever makes the same. Index: inbox_lane_pkey.
INSERT INTO posthaste.inbox_lane (consumer, log, lane, topic)
VALUES (:consumer, :log, :lane, :topic)
ON CONFLICT DO NOTHING
