-- inbox_lock_lane: the watermark of lane :lane, topic :topic, log :log, for consumer :consumer. An UPDATE that
-- changes nothing, because it takes the write lock where the caller has not.
-- Concurrency: in the caller's transaction. Index: primary key.
UPDATE posthaste_inbox_lane
SET watermark = watermark
WHERE consumer = :consumer AND log = :log AND lane = :lane AND topic = :topic
RETURNING watermark
