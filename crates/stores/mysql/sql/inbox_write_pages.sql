-- inbox_write_pages: pages of a lane; rows and inbox_write_pages_again are added.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
INSERT INTO posthaste_inbox_page (consumer, log, lane, topic, shards, shard, number, seqs)
