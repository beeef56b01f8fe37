-- discard: the parked messages of the seqs in the JSON array :seqs are given up by :by because of :why.
-- Concurrency: in the transaction that chose them. Index: primary key.
UPDATE posthaste_parked
SET
    state = 'discarded',
    blocks = 0,
    next_attempt_at = NULL,
    state_at = unixepoch('subsec'),
    acted_by = :by,
    acted_why = :why
WHERE route = :route AND seq IN (SELECT value FROM json_each(:seqs))
