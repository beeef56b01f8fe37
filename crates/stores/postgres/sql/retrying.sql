-- retrying: retrying messages that match. $1 route, $2 ids, $3 topic, $4 class of the latest error,
-- each NULL for any; $5 at most.
-- Concurrency: reads. Index: parked_id, or parked_retrying.
SELECT
    seq,
    id,
    topic,
    key,
    type,
    payload,
    NULL::int,
    headers::text,
    content_type,
    date_part('epoch', next_attempt_at - clock_timestamp()),
    attempts,
    unknowns,
    redriven,
    route,
    state,
    first_error_class,
    first_error,
    last_error_class,
    last_error,
    to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    to_char(parked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    to_char(state_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    acted_by,
    acted_why
FROM posthaste.parked
WHERE state = 'retrying'
    AND ($1::text IS NULL OR route = $1)
    AND ($2::uuid[] IS NULL OR id = ANY ($2))
    AND ($3::text IS NULL OR topic = $3)
    AND ($4::text IS NULL OR last_error_class = $4)
ORDER BY seq, route
LIMIT $5
