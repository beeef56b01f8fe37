-- inbox_write_lane: watermark ?5 of lane ?3, topic ?4, log ?2, of consumer ?1; adds to its counts.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
UPDATE posthaste_inbox_lane
SET
    watermark = ?5,
    handled = handled + ?6,
    reordered = reordered + ?7,
    impossible = impossible + ?8,
    at = unixepoch('subsec')
WHERE consumer = ?1 AND log = ?2 AND lane = ?3 AND topic = ?4
