-- inbox_next_page: the number of the page behind the first :limit pages from :first to :last, of consumer
-- :consumer, log :log, lane :lane, topic :topic, shard :index of :of.
-- Concurrency: the lane is locked by this transaction. Index: primary key.
SELECT number
FROM posthaste_inbox_page
WHERE consumer = :consumer
    AND log = UNHEX(REPLACE(:log, '-', ''))
    AND lane = :lane
    AND topic = :topic
    AND shards = :of
    AND shard = :index
    AND number BETWEEN :first AND :last
ORDER BY number
LIMIT 1
OFFSET :limit
