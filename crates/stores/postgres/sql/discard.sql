-- discard: gives matching dead letters up: the first $7 from seq $6 on. Filter as for dead; $5 by whom,
-- $8 why, $9 of which routes.
-- Concurrency: with the routes' leases locked, so nothing of it is being tried.
-- Index: parked_id, parked_dead, or parked_dead_all; then by ctid, whatever is known about the table.
UPDATE posthaste.parked
SET
    state = 'discarded',
    blocks = false,
    state_at = clock_timestamp(),
    acted_by = $5,
    acted_why = $8
WHERE ctid = ANY (ARRAY(
    SELECT ctid
    FROM posthaste.parked
    WHERE state = 'dead'
        AND seq >= $6
        AND route = ANY ($9)
        AND ($1::text IS NULL OR route = $1)
        AND ($2::uuid[] IS NULL OR id = ANY ($2))
        AND ($3::text IS NULL OR topic = $3)
        AND ($4::text IS NULL OR last_error_class = $4)
    ORDER BY seq, route
    LIMIT $7
))
RETURNING route, key, seq
