-- inbox_record: records ids; a row of values for each is added. Those there are left alone.
-- Concurrency: waits for whoever records one of them in an open transaction. Index: primary key.
INSERT IGNORE INTO posthaste_inbox (consumer, id)
