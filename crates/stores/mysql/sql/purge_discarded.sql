-- purge_discarded: removes the parked messages in the JSON array ? of [route in hex, seq].
-- Concurrency: in the transaction of purge_discarded_scan, which locked them. Index: primary key (one
-- lookup a row).
DELETE parked
FROM JSON_TABLE(
    ?,
    '$[*]' COLUMNS (route VARCHAR(510) PATH '$[0]', seq BIGINT PATH '$[1]')) AS done
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = UNHEX(done.route) AND parked.seq = done.seq
