-- redrive: the dead letters of the seqs in the JSON array ?, of route ?, are tried again, on behalf
-- of ?. Who has to wait is settled afterwards (hold_followers).
-- Concurrency: in the transaction that found them, with the routes' leases locked. Index: primary key.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = ? AND parked.seq = wanted.seq
SET
    parked.state = 'retrying',
    parked.blocks = 0,
    parked.attempts = 0,
    parked.unknowns = 0,
    parked.redriven = parked.redriven + 1,
    parked.state_at = UTC_TIMESTAMP(6),
    parked.next_attempt_at = UTC_TIMESTAMP(6),
    parked.acted_by = ?,
    parked.acted_why = 'redrive'
