-- discard: :by gives up the parked messages of the seqs in the JSON array :seqs, of route :route, because
-- of :why.
-- Concurrency: in the transaction that found them, with the routes' leases locked. Index: primary key.
UPDATE JSON_TABLE(:seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = :route AND parked.seq = wanted.seq
SET
    parked.state = 'discarded',
    parked.blocks = 0,
    parked.next_attempt_at = NULL,
    parked.state_at = UTC_TIMESTAMP(6),
    parked.acted_by = :by,
    parked.acted_why = :why
