-- redrive: makes matching dead letters retry. Filter as for dead; $5 by whom. promote_heads plans
-- the attempts of those with a key.
-- Concurrency: with the routes' leases locked. Index: parked_id, or parked_dead.
UPDATE posthaste.parked
SET
    state = 'retrying',
    blocks = false,
    attempts = 0,
    unknowns = 0,
    redriven = redriven + 1,
    state_at = clock_timestamp(),
    next_attempt_at = CASE WHEN key IS NULL THEN clock_timestamp() END,
    acted_by = $5,
    acted_why = 'redrive'
WHERE state = 'dead'
    AND ($1::text IS NULL OR route = $1)
    AND ($2::uuid[] IS NULL OR id = ANY ($2))
    AND ($3::text IS NULL OR topic = $3)
    AND ($4::text IS NULL OR last_error_class = $4)
RETURNING route, key
