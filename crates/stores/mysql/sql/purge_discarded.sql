-- purge_discarded: removes the discarded messages of the seqs in the JSON array :seqs, of route :route.
-- Concurrency: in the transaction of purge_discarded_scan, which locked them. Index: primary key (one
-- lookup a row).
DELETE parked
FROM JSON_TABLE(:seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS done
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = :route AND parked.seq = done.seq
WHERE parked.state = 'discarded'
