-- inbox_read_pages: those of pages ? (a JSON array) that are there, of consumer ?, log ?, lane ?,
-- topic ?, shard ? of ?.
-- Concurrency: this transaction is the writer. Index: primary key.
SELECT
    number,
    seqs
FROM posthaste_inbox_page
WHERE consumer = ? AND log = ? AND lane = ? AND topic = ? AND shards = ? AND shard = ?
    AND number IN (SELECT value FROM json_each(?))
