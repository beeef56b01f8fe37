-- inbox_write_lane: watermark :watermark of lane :lane, topic :topic, log :log, of consumer :consumer; adds to its counts.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
UPDATE posthaste_inbox_lane
SET
    watermark = :watermark,
    handled = handled + :handled,
    reordered = reordered + :reordered,
    impossible = impossible + :impossible,
    at = unixepoch('subsec')
WHERE consumer = :consumer AND log = :log AND lane = :lane AND topic = :topic
