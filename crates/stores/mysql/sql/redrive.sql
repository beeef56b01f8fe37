-- redrive: the dead letters of the seqs in the JSON array :seqs, of route :route, are tried again, on
-- behalf of :by. Which of them have to wait is decided afterwards (hold_followers).
-- Concurrency: in the transaction that found them, with the routes' leases locked. Index: primary key.
UPDATE JSON_TABLE(:seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = :route AND parked.seq = wanted.seq
SET
    parked.state = 'retrying',
    parked.blocks = 0,
    parked.attempts = 0,
    parked.unknowns = 0,
    parked.redriven = parked.redriven + 1,
    parked.state_at = UTC_TIMESTAMP(6),
    parked.next_attempt_at = UTC_TIMESTAMP(6),
    parked.acted_by = :by,
    parked.acted_why = 'redrive'
