-- discard_retrying: gives matching retrying messages up. Filter as for dead; $5 by whom, $6 why.
-- Concurrency: with the routes' leases locked, whose holders are fenced afterwards (fence_leases).
-- Index: parked_id, or parked_retrying.
UPDATE posthaste.parked
SET
    state = 'discarded',
    next_attempt_at = NULL,
    state_at = clock_timestamp(),
    acted_by = $5,
    acted_why = $6
WHERE state = 'retrying'
    AND ($1::text IS NULL OR route = $1)
    AND ($2::uuid[] IS NULL OR id = ANY ($2))
    AND ($3::text IS NULL OR topic = $3)
    AND ($4::text IS NULL OR last_error_class = $4)
RETURNING route, key, seq
