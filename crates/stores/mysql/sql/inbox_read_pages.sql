-- inbox_read_pages: those pages of the JSON array :numbers that are there, of consumer :consumer, log
-- :log, lane :lane, topic :topic, shard :index of :of. FOR UPDATE locks what the lane's lock holds
-- already, and reads what is there now, not what an old snapshot of the caller's transaction shows.
-- Concurrency: the lane is locked by this transaction. Index: primary key (one lookup a page).
SELECT
    page.number,
    page.seqs
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN posthaste_inbox_page AS page FORCE INDEX (PRIMARY)
    ON page.consumer = :consumer
        AND page.log = UNHEX(REPLACE(:log, '-', ''))
        AND page.lane = :lane
        AND page.topic = :topic
        AND page.shards = :of
        AND page.shard = :index
        AND page.number = wanted.number
FOR UPDATE
