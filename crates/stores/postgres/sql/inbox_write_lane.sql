-- inbox_write_lane: watermark $5 of lane $3, topic $4, log $2, of consumer $1; adds to its counts.
-- Concurrency: the row is locked by this transaction. Index: inbox_lane_pkey; a HOT update.
UPDATE posthaste.inbox_lane
SET
    watermark = $5,
    handled = handled + $6,
    reordered = reordered + $7,
    impossible = impossible + $8,
    at = clock_timestamp()
WHERE consumer = $1 AND log = $2 AND lane = $3 AND topic = $4
