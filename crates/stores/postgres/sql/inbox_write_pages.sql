-- inbox_write_pages: adds or replaces pages. Every parameter is an array with an item for each page:
-- `:consumer :log :lane :topic`, `:index` of `:of` shards, `:number :seqs`.
-- Concurrency: this transaction has locked the lane. Index: inbox_page_pkey.
INSERT INTO posthaste.inbox_page (consumer, log, lane, topic, shards, shard, number, seqs)
SELECT consumer, log, lane, topic, shards, shard, number, seqs
FROM unnest(
    :consumer::text[], :log::uuid[], :lane::text[], :topic::text[], :of::int8[], :index::int8[],
    :number::int8[], :seqs::text[]
) AS page (consumer, log, lane, topic, shards, shard, number, seqs)
ON CONFLICT (consumer, log, lane, topic, shards, shard, number)
DO UPDATE SET seqs = excluded.seqs
