-- inbox_remove_pages: pages from ? to ?, of consumer ?, log ?, lane ?, topic ?, shard ? of ?.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
DELETE FROM posthaste_inbox_page
WHERE consumer = ? AND log = ? AND lane = ? AND topic = ? AND shards = ? AND shard = ?
    AND number BETWEEN ? AND ?
