-- inbox_create_lane: a row for consumer ?, log ?, lane ?, topic ?, unless it is there.
-- Concurrency: waits for whoever makes the same, and locks the row. Index: primary key.
INSERT INTO posthaste_inbox_lane (consumer, log, lane, topic, watermark)
VALUES (?, ?, ?, ?, '')
ON DUPLICATE KEY UPDATE at = at
