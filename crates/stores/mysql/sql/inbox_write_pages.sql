-- inbox_write_pages: page :number with the seqs :seqs, of consumer :consumer, log :log, lane :lane, topic
-- :topic, shard :index of :of. A page that is there gets other seqs.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
INSERT INTO posthaste_inbox_page (consumer, log, lane, topic, shards, shard, number, seqs)
VALUES (:consumer, UNHEX(REPLACE(:log, '-', '')), :lane, :topic, :of, :index, :number, :seqs)
ON DUPLICATE KEY UPDATE seqs = VALUES(seqs)
