-- inbox_write_lane: writes the watermark `:watermark` of lane `:lane` of topic `:topic` and log `:log` of
-- consumer `:consumer`; adds `:handled`, `:reordered` and `:impossible` to its counts.
-- Concurrency: this transaction has locked the row. Index: inbox_lane_pkey; a HOT update.
UPDATE posthaste.inbox_lane
SET
    watermark = :watermark,
    handled = handled + :handled,
    reordered = reordered + :reordered,
    impossible = impossible + :impossible,
    at = clock_timestamp()
WHERE consumer = :consumer AND log = :log AND lane = :lane AND topic = :topic
