-- inbox_write_lane: writes watermark :watermark and adds the counts :handled, :reordered and :impossible,
-- of consumer :consumer, log :log, lane :lane, topic :topic.
-- Concurrency: the row is locked by this transaction. Index: primary key.
UPDATE posthaste_inbox_lane
SET
    watermark = :watermark,
    handled = handled + :handled,
    reordered = reordered + :reordered,
    impossible = impossible + :impossible,
    at = UTC_TIMESTAMP(6)
WHERE consumer = :consumer
    AND log = UNHEX(REPLACE(:log, '-', ''))
    AND lane = :lane
    AND topic = :topic
