-- inbox_create_lane: a row for consumer :consumer, log :log, lane :lane, topic :topic, unless it is there.
-- Concurrency: waits for whoever makes the same, and locks the row. Index: primary key.
INSERT INTO posthaste_inbox_lane (consumer, log, lane, topic, watermark)
VALUES (:consumer, UNHEX(REPLACE(:log, '-', '')), :lane, :topic, '')
ON DUPLICATE KEY UPDATE at = at
