-- inbox_lock_lane: the watermark of consumer ?, log ?, lane ?, topic ?; locked.
-- Concurrency: waits for whoever handles the lane. Index: primary key.
SELECT watermark
FROM posthaste_inbox_lane
WHERE consumer = ? AND log = ? AND lane = ? AND topic = ?
FOR UPDATE
