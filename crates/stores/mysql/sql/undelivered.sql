-- undelivered: the first parked messages of route ? that may still come, of ? shards the one of
-- index ?, at most ?.
-- Concurrency: reads; complete where nobody else settles for the shard. Index: primary key.
SELECT seq
FROM posthaste_parked
WHERE route = ?
    AND state <> 'discarded'
    AND bucket MOD ? = ?
ORDER BY seq
LIMIT ?
