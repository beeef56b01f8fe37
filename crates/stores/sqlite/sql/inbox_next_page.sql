-- inbox_next_page: the page after the first ? of those from ? to ?, of consumer ?, log ?, lane ?, topic ?,
-- shard ? of ?.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
SELECT number
FROM posthaste_inbox_page
WHERE consumer = ? AND log = ? AND lane = ? AND topic = ? AND shards = ? AND shard = ?
    AND number BETWEEN ? AND ?
ORDER BY number
LIMIT 1
OFFSET ?
