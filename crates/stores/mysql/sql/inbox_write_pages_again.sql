-- inbox_write_pages_again: the end of inbox_write_pages: a page that is there gets other seqs.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
ON DUPLICATE KEY UPDATE seqs = VALUES(seqs)
