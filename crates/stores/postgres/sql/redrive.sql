-- redrive: makes matching dead letters retry: the first $7 from seq $6 on. Filter as for dead; $5 by
-- whom, $8 of which routes. promote_heads plans the attempts of those with a key.
-- Concurrency: with the routes' leases locked.
-- Index: parked_id, parked_dead, or parked_dead_all; then by ctid, whatever is known about the table.
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
WHERE ctid = ANY (ARRAY(
    SELECT ctid
    FROM posthaste.parked
    WHERE state = 'dead'
        AND seq >= $6
        AND route = ANY ($8)
        AND ($1::text IS NULL OR route = $1)
        AND ($2::uuid[] IS NULL OR id = ANY ($2))
        AND ($3::text IS NULL OR topic = $3)
        AND ($4::text IS NULL OR last_error_class = $4)
    ORDER BY seq, route
    LIMIT $7
))
RETURNING route, key, seq
