-- inbox_lock_lane: the watermark of lane `:lane` of topic `:topic` and log `:log` of consumer `:consumer`;
-- the lane stays locked until the transaction ends.
-- Concurrency: waits for whoever handles the lane. Index: inbox_lane_pkey.
SELECT watermark
FROM posthaste.inbox_lane
WHERE consumer = :consumer AND log = :log AND lane = :lane AND topic = :topic
FOR UPDATE
