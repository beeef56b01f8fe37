-- inbox_write_pages: pages $7 with seqs $8, of shard $6 of $5, of lane $3, topic $4, log $2, for
-- consumer $1.
-- Concurrency: the lane is locked by this transaction. Index: inbox_page_pkey.
INSERT INTO posthaste.inbox_page (consumer, log, lane, topic, shards, shard, number, seqs)
SELECT
    $1,
    $2,
    $3,
    $4,
    $5,
    $6,
    page.number,
    page.seqs
FROM unnest($7::bigint[], $8::text[]) AS page (number, seqs)
ON CONFLICT (consumer, log, lane, topic, shards, shard, number)
DO UPDATE SET seqs = excluded.seqs
