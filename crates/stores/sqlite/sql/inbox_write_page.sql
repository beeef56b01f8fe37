-- inbox_write_page: page ? with seqs ?, of consumer ?, log ?, lane ?, topic ?, shard ? of ?.
-- Concurrency: this transaction is the writer. Index: primary key.
INSERT INTO posthaste_inbox_page (consumer, log, lane, topic, shards, shard, number, seqs)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seqs = excluded.seqs
