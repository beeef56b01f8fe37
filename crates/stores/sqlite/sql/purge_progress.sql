-- purge_progress: removes entries from the journal of route :route, shard :shard; :entries is a JSON array of [epoch, n].
-- Concurrency: holds the write lock; removes only what nobody reads. Index: primary key (one lookup an
-- entry).
DELETE FROM posthaste_progress
WHERE route = :route
    AND shard = :shard
    AND (epoch, n) IN (
        SELECT
            json_extract(value, '$[0]'),
            json_extract(value, '$[1]')
        FROM json_each(:entries))
