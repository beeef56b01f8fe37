-- inbox_letters: dead letters of consumers that match, and discarded ones where they are named. $1
-- consumer, $2 ids, $3 topic, $4 class of the latest error, each NULL for any; $5 at most.
-- Concurrency: reads. Index: inbox_dead_pkey, or inbox_dead_state.
SELECT
    coalesce(seq, 0),
    id,
    topic,
    key,
    type,
    payload,
    NULL::int,
    headers::text,
    content_type,
    NULL::float8,
    attempts,
    0,
    redriven,
    consumer,
    state,
    first_error_class,
    first_error,
    last_error_class,
    last_error,
    to_char(dead_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    to_char(dead_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    to_char(state_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    acted_by,
    acted_why
FROM posthaste.inbox_dead
WHERE (state = 'dead' OR (state = 'discarded' AND $2::uuid[] IS NOT NULL))
    AND ($1::text IS NULL OR consumer = $1)
    AND ($2::uuid[] IS NULL OR id = ANY ($2))
    AND ($3::text IS NULL OR topic = $3)
    AND ($4::text IS NULL OR last_error_class = $4)
ORDER BY dead_at, consumer, id
LIMIT $5
