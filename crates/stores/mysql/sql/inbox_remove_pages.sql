-- inbox_remove_pages: removes the pages from :first to :last, of consumer :consumer, log :log, lane :lane,
-- topic :topic, shard :index of :of.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
DELETE FROM posthaste_inbox_page
WHERE consumer = :consumer
    AND log = UNHEX(REPLACE(:log, '-', ''))
    AND lane = :lane
    AND topic = :topic
    AND shards = :of
    AND shard = :index
    AND number BETWEEN :first AND :last
