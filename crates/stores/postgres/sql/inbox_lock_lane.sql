-- inbox_lock_lane: the watermark of lane $3, topic $4, log $2, for consumer $1; locked.
-- Concurrency: waits for whoever handles the lane. Index: inbox_lane_pkey.
SELECT watermark
FROM posthaste.inbox_lane
WHERE consumer = $1 AND log = $2 AND lane = $3 AND topic = $4
FOR UPDATE
