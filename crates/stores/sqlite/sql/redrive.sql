-- redrive: the parked messages of the seqs in the JSON array :seqs are tried again, on behalf of :by. Who has
-- to wait is settled afterwards (hold_followers).
-- Concurrency: in the transaction that chose them. Index: primary key.
UPDATE posthaste_parked
SET
    state = 'retrying',
    blocks = 0,
    attempts = 0,
    unknowns = 0,
    redriven = redriven + 1,
    state_at = unixepoch('subsec'),
    next_attempt_at = unixepoch('subsec'),
    acted_by = :by,
    acted_why = 'redrive'
WHERE route = :route AND seq IN (SELECT value FROM json_each(:seqs))
