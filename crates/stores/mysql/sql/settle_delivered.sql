-- settle_delivered: forgets the parked messages of the seqs in the JSON array ?, of route ?. What a
-- person discarded meanwhile stays on record.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
DELETE parked
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS done
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = ? AND parked.seq = done.seq
WHERE parked.state <> 'discarded'
