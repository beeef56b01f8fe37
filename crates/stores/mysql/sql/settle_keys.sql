-- settle_keys: the keys of the parked messages of the seqs in the JSON array :seqs, of route :route.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
SELECT DISTINCT parked.`key`
FROM JSON_TABLE(:seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS known
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = :route AND parked.seq = known.seq
WHERE parked.`key` IS NOT NULL
