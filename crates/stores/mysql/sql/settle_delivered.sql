-- settle_delivered: forgets the parked messages of the seqs in the JSON array :seqs, of route :route.
-- Messages that a person discarded meanwhile stay on record.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
DELETE parked
FROM JSON_TABLE(:seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS done
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = :route AND parked.seq = done.seq
WHERE parked.state <> 'discarded'
