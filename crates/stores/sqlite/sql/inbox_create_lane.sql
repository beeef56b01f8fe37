-- inbox_create_lane: a row for lane ?3, topic ?4, log ?2, of consumer ?1, unless it is there; takes
-- the write lock where the caller has not.
-- Concurrency: in the caller's transaction. Index: primary key.
INSERT INTO posthaste_inbox_lane (consumer, log, lane, topic)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO NOTHING
