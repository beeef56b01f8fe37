-- inbox_read_pages: those of the pages in the JSON array :numbers that a lane and shard has.
-- Concurrency: this transaction is the writer. Index: primary key.
SELECT
    number,
    seqs
FROM posthaste_inbox_page
WHERE consumer = :consumer AND log = :log AND lane = :lane AND topic = :topic AND shards = :of AND shard = :index
    AND number IN (SELECT value FROM json_each(:numbers))
