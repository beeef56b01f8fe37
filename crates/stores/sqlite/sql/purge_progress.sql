-- purge_progress: removes entries from the journal of route ?1, shard ?2; ?3 is a JSON array of [epoch, n].
-- Concurrency: holds the write lock; removes only what nobody reads. Index: primary key (one lookup an
-- entry).
DELETE FROM posthaste_progress
WHERE route = ?1
    AND shard = ?2
    AND (epoch, n) IN (
        SELECT
            json_extract(value, '$[0]'),
            json_extract(value, '$[1]')
        FROM json_each(?3))
