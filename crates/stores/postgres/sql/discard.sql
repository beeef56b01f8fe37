-- discard: gives the parked messages `:seqs` of route `:route` up, by whom `:by` and why `:why` says.
-- Concurrency: with the route's leases locked; holders that may be trying one are fenced (fence_leases).
-- Index: parked_pkey. Looked up one by one and by ctid, whatever is known about the table.
UPDATE posthaste.parked
SET
    state = 'discarded',
    blocks = false,
    next_attempt_at = NULL,
    state_at = clock_timestamp(),
    acted_by = :by,
    acted_why = :why
WHERE ctid = ANY (ARRAY(
        SELECT letter.ctid
        FROM unnest(:seqs::int8[]) AS given (seq)
        CROSS JOIN LATERAL (
            SELECT parked.ctid
            FROM posthaste.parked
            WHERE parked.route = :route AND parked.seq = given.seq
            LIMIT 1
        ) AS letter
    ))
    AND state <> 'discarded'
