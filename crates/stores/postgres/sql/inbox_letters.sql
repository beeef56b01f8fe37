-- inbox_letters: dead letters of consumers that match `:route` (the consumer), `:ids`, `:topic` and
-- `:class` of the latest error, each NULL for any, and discarded ones where ids are given; the first
-- `:limit` of them. When they were enqueued is not known.
-- Concurrency: reads. Index: inbox_dead_pkey, or inbox_dead_state.
SELECT
    coalesce(seq, 0),
    id,
    topic,
    key,
    type,
    headers::text,
    content_type,
    NULL::int8,
    payload,
    attempts,
    0,
    redriven,
    NULL::int8,
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
WHERE (state = 'dead' OR (state = 'discarded' AND :ids::uuid[] IS NOT NULL))
    AND (:route::text IS NULL OR consumer = :route)
    AND (:ids::uuid[] IS NULL OR id = ANY (:ids))
    AND (:topic::text IS NULL OR topic = :topic)
    AND (:class::text IS NULL OR last_error_class = :class)
ORDER BY dead_at, consumer, id
LIMIT :limit
