-- inbox_write_pages: page :number of a lane and shard, with :seqs, in place of the one that is there.
-- Concurrency: this transaction is the writer. Index: primary key.
INSERT INTO posthaste_inbox_page (consumer, log, lane, topic, shards, shard, number, seqs)
VALUES (:consumer, :log, :lane, :topic, :of, :index, :number, :seqs)
ON CONFLICT DO UPDATE SET seqs = excluded.seqs
