-- dead: dead letters, or messages in another state ?6, that match the filter (?1 route, ?2 JSON array of
-- ids, ?3 topic, ?4 class), discarded ones only by id; the first ?5 of them. Payloads are read for
-- those alone.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_state.
SELECT
    route,
    seq,
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    state,
    attempts,
    unknowns,
    redriven,
    first_error_class,
    first_error,
    last_error_class,
    last_error,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', parked_at, 'unixepoch') AS parked_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', state_at, 'unixepoch') AS state_at,
    next_attempt_at - unixepoch('subsec') AS next_attempt_in,
    acted_by,
    acted_why,
    payload
FROM posthaste_parked
WHERE rowid IN (
    SELECT rowid
    FROM posthaste_parked
    WHERE (state = ?6 OR (state = 'discarded' AND ?6 = 'dead' AND ?2 IS NOT NULL))
        AND (?1 IS NULL OR route = ?1)
        AND (?2 IS NULL OR id IN (SELECT value FROM json_each(?2)))
        AND (?3 IS NULL OR topic = ?3)
        AND (?4 IS NULL OR last_error_class = ?4)
    ORDER BY seq, route
    LIMIT ?5)
ORDER BY seq, route
