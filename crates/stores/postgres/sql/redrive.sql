-- redrive: makes the dead letters `:seqs` of route `:route` retry, by whom `:by` says. promote_heads plans
-- the attempts of those with a key.
-- Concurrency: with the route's leases locked.
-- Index: parked_pkey. Looked up one by one and by ctid, whatever is known about the table.
UPDATE posthaste.parked
SET
    state = 'retrying',
    blocks = false,
    attempts = 0,
    unknowns = 0,
    redriven = redriven + 1,
    state_at = clock_timestamp(),
    next_attempt_at = CASE WHEN key IS NULL THEN clock_timestamp() END,
    acted_by = :by,
    acted_why = 'redrive'
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
    AND state = 'dead'
