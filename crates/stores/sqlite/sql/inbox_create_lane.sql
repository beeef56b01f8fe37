-- inbox_create_lane: a row for lane :lane, topic :topic, log :log, of consumer :consumer, unless it is there; takes
-- the write lock where the caller has not.
-- Concurrency: in the caller's transaction. Index: primary key.
INSERT INTO posthaste_inbox_lane (consumer, log, lane, topic)
VALUES (:consumer, :log, :lane, :topic)
ON CONFLICT DO NOTHING
