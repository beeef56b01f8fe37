-- inbox_lock_lane: the watermark of lane ?3, topic ?4, log ?2, for consumer ?1.
-- Concurrency: the caller's transaction holds the write lock. Index: primary key.
SELECT watermark
FROM posthaste_inbox_lane
WHERE consumer = ?1 AND log = ?2 AND lane = ?3 AND topic = ?4
