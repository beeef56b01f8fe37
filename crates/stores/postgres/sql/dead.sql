-- dead: parked messages in state `:state` that match `:route`, `:ids`, `:topic` and `:class` of the latest
-- error, each NULL for any, and discarded ones beside dead ones where ids are given; the first `:limit` of
-- them. The time of enqueueing comes as a text only.
-- Concurrency: reads. Index: parked_id; parked_dead, parked_dead_all or parked_retrying.
SELECT
    seq,
    id,
    topic,
    key,
    type,
    headers::text,
    content_type,
    NULL::int8,
    payload,
    attempts,
    unknowns,
    redriven,
    (extract(epoch FROM next_attempt_at - clock_timestamp()) * 1000000)::int8,
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
WHERE (
        state = :state
        OR (state = 'discarded' AND :state = 'dead' AND :ids::uuid[] IS NOT NULL)
    )
    AND (:route::text IS NULL OR route = :route)
    AND (:ids::uuid[] IS NULL OR id = ANY (:ids))
    AND (:topic::text IS NULL OR topic = :topic)
    AND (:class::text IS NULL OR last_error_class = :class)
ORDER BY seq, route
LIMIT :limit
