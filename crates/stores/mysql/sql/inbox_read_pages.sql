-- inbox_read_pages: those of some pages that are there, of consumer ?, log ?, lane ?, topic ?, shard ? of ?;
-- `IN (?, …) FOR UPDATE` is added. It locks what the lane's lock holds already, and reads what is there
-- now, not what an old snapshot of the caller's transaction shows.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
SELECT
    number,
    seqs
FROM posthaste_inbox_page
WHERE consumer =
