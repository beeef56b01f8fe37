-- inbox_read_pages: those of pages $7 that are there, of shard $6 of $5, of lane $3, topic $4, log $2,
-- for consumer $1.
-- Concurrency: the lane is locked by this transaction. Index: inbox_page_pkey.
SELECT
    number,
    seqs
FROM posthaste.inbox_page
WHERE consumer = $1 AND log = $2 AND lane = $3 AND topic = $4 AND shards = $5 AND shard = $6
    AND number = ANY($7)
