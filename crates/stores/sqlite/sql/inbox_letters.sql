-- inbox_letters: dead letters of consumers that match the filter (consumer :route, JSON array :ids, :topic,
-- :class; NULL for any), discarded ones only by id; the first :limit of them.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_inbox_dead_state.
SELECT
    coalesce(seq, 0),
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    CAST(round(dead_at * 1000) AS INTEGER) * 1000,
    payload,
    attempts,
    0,
    redriven,
    NULL,
    consumer,
    state,
    first_error_class,
    first_error,
    last_error_class,
    last_error,
    strftime('%Y-%m-%dT%H:%M:%fZ', dead_at, 'unixepoch'),
    strftime('%Y-%m-%dT%H:%M:%fZ', dead_at, 'unixepoch'),
    strftime('%Y-%m-%dT%H:%M:%fZ', state_at, 'unixepoch'),
    acted_by,
    acted_why
FROM posthaste_inbox_dead
WHERE rowid IN (
    SELECT rowid
    FROM posthaste_inbox_dead
    WHERE (state = 'dead' OR (state = 'discarded' AND :ids IS NOT NULL))
        AND (:route IS NULL OR consumer = :route)
        AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
        AND (:topic IS NULL OR topic = :topic)
        AND (:class IS NULL OR last_error_class = :class)
    ORDER BY dead_at, consumer, id
    LIMIT :limit)
ORDER BY dead_at, consumer, id
