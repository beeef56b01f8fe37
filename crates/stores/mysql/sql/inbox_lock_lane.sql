-- inbox_lock_lane: the watermark of consumer :consumer, log :log, lane :lane, topic :topic; locked.
-- Concurrency: waits for whoever handles the lane. Index: primary key.
SELECT watermark
FROM posthaste_inbox_lane
WHERE consumer = :consumer
    AND log = UNHEX(REPLACE(:log, '-', ''))
    AND lane = :lane
    AND topic = :topic
FOR UPDATE
