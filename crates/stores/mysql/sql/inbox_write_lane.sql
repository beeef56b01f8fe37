-- inbox_write_lane: watermark ? and counts ?, ?, ? to add, of consumer ?, log ?, lane ?, topic ?.
-- Concurrency: the row is locked by this transaction. Index: primary key.
UPDATE posthaste_inbox_lane
SET
    watermark = ?,
    handled = handled + ?,
    reordered = reordered + ?,
    impossible = impossible + ?,
    at = UTC_TIMESTAMP(6)
WHERE consumer = ? AND log = ? AND lane = ? AND topic = ?
