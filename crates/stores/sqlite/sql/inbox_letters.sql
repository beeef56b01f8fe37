-- inbox_letters: dead letters of consumers that match the filter (?1 consumer, ?2 JSON array of ids,
-- ?3 topic, ?4 class), discarded ones only by id; the first ?5 of them.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_inbox_dead_state.
SELECT
    consumer AS route,
    coalesce(seq, 0) AS seq,
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    state,
    attempts,
    0 AS unknowns,
    redriven,
    first_error_class,
    first_error,
    last_error_class,
    last_error,
    strftime('%Y-%m-%dT%H:%M:%fZ', dead_at, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', dead_at, 'unixepoch') AS parked_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', state_at, 'unixepoch') AS state_at,
    NULL AS next_attempt_in,
    acted_by,
    acted_why,
    payload
FROM posthaste_inbox_dead
WHERE rowid IN (
    SELECT rowid
    FROM posthaste_inbox_dead
    WHERE (state = 'dead' OR (state = 'discarded' AND ?2 IS NOT NULL))
        AND (?1 IS NULL OR consumer = ?1)
        AND (?2 IS NULL OR id IN (SELECT value FROM json_each(?2)))
        AND (?3 IS NULL OR topic = ?3)
        AND (?4 IS NULL OR last_error_class = ?4)
    ORDER BY dead_at, consumer, id
    LIMIT ?5)
ORDER BY dead_at, consumer, id
