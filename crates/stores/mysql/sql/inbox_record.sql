-- inbox_record: records ids; a row of values for each is added, then inbox_record_again.
-- Concurrency: waits for whoever records one of them in an open transaction. Index: primary key.
INSERT INTO posthaste_inbox (consumer, id)
