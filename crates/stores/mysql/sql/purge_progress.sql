-- purge_progress: removes the entries of the JSON array :entries, of [epoch, n], from the journal of route
-- :route, shard :shard.
-- Concurrency: removes only entries that nobody reads. Index: primary key (one lookup an entry).
DELETE progress
FROM JSON_TABLE(
    :entries,
    '$[*]' COLUMNS (epoch BIGINT PATH '$[0]', n BIGINT PATH '$[1]')
) AS spare
STRAIGHT_JOIN posthaste_progress AS progress FORCE INDEX (PRIMARY)
    ON progress.route = :route
        AND progress.shard = :shard
        AND progress.epoch = spare.epoch
        AND progress.n = spare.n
