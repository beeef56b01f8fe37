-- purge_progress: removes the entries of the JSON array ?, of [epoch, n], from the journal of route ?,
-- shard ?.
-- Concurrency: removes only what nobody reads. Index: primary key (one lookup an entry).
DELETE progress
FROM JSON_TABLE(
    ?,
    '$[*]' COLUMNS (epoch BIGINT PATH '$[0]', n BIGINT PATH '$[1]')
) AS spare
STRAIGHT_JOIN posthaste_progress AS progress FORCE INDEX (PRIMARY)
    ON progress.route = ?
        AND progress.shard = ?
        AND progress.epoch = spare.epoch
        AND progress.n = spare.n
