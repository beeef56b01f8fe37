-- inbox_next_page: the page after the first :limit of those from :first to :last of a lane and shard.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
SELECT number
FROM posthaste_inbox_page
WHERE consumer = :consumer AND log = :log AND lane = :lane AND topic = :topic AND shards = :of AND shard = :index
    AND number BETWEEN :first AND :last
ORDER BY number
LIMIT 1
OFFSET :limit
