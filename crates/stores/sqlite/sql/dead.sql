-- dead: dead letters, or messages in another state :state, that match the filter (:route, JSON array :ids,
-- :topic, :class; NULL for any), discarded ones only by id; the first :limit of them. Payloads are read
-- for those alone.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_state.
SELECT
    seq,
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    CAST(round(created_at * 1000) AS INTEGER) * 1000,
    payload,
    attempts,
    unknowns,
    redriven,
    CAST((next_attempt_at - unixepoch('subsec')) * 1000000 AS INTEGER),
    route,
    state,
    first_error_class,
    first_error,
    last_error_class,
    last_error,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at, 'unixepoch'),
    strftime('%Y-%m-%dT%H:%M:%fZ', parked_at, 'unixepoch'),
    strftime('%Y-%m-%dT%H:%M:%fZ', state_at, 'unixepoch'),
    acted_by,
    acted_why
FROM posthaste_parked
WHERE rowid IN (
    SELECT rowid
    FROM posthaste_parked
    WHERE (state = :state OR (state = 'discarded' AND :state = 'dead' AND :ids IS NOT NULL))
        AND (:route IS NULL OR route = :route)
        AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
        AND (:topic IS NULL OR topic = :topic)
        AND (:class IS NULL OR last_error_class = :class)
    ORDER BY seq, route
    LIMIT :limit)
ORDER BY seq, route
