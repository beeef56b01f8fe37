-- inbox_remove_pages: removes the pages from `:first` to `:last`, of shard `:index` of `:of`, of lane
-- `:lane` of topic `:topic` and log `:log` of consumer `:consumer`.
-- Concurrency: this transaction has locked the lane. Index: inbox_page_pkey.
DELETE FROM posthaste.inbox_page
WHERE consumer = :consumer
    AND log = :log
    AND lane = :lane
    AND topic = :topic
    AND shards = :of
    AND shard = :index
    AND number BETWEEN :first AND :last
