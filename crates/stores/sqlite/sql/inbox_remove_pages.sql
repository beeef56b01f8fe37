-- inbox_remove_pages: pages from :first to :last of a lane and shard.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
DELETE FROM posthaste_inbox_page
WHERE consumer = :consumer AND log = :log AND lane = :lane AND topic = :topic AND shards = :of AND shard = :index
    AND number BETWEEN :first AND :last
