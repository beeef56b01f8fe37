-- inbox_letters: dead letters of consumers that match the filter (JSON array of ids ?, consumer ?,
-- ids ?, topic ?, class ?, each NULL for any, and all but the first given twice), discarded ones only
-- by id; the first ? of them.
-- Concurrency: reads. Index: primary key, or posthaste_inbox_dead_state.
SELECT
    COALESCE(seq, 0),
    id,
    topic,
    `key`,
    `type`,
    headers,
    content_type,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', dead_at),
    payload,
    attempts,
    CAST(0 AS UNSIGNED),
    redriven,
    CAST(NULL AS SIGNED),
    consumer,
    state,
    first_error_class,
    first_error,
    last_error_class,
    last_error,
    DATE_FORMAT(dead_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
    DATE_FORMAT(dead_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
    DATE_FORMAT(state_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
    acted_by,
    acted_why
FROM posthaste_inbox_dead
WHERE (state = 'dead' OR (state = 'discarded' AND ? IS NOT NULL))
    AND (? IS NULL OR consumer = ?)
    AND (
        ? IS NULL
        OR id IN (
            SELECT wanted.id
            FROM JSON_TABLE(
                ?,
                '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$')
            ) AS wanted))
    AND (? IS NULL OR topic = ?)
    AND (? IS NULL OR last_error_class = ?)
ORDER BY dead_at, consumer, id
LIMIT ?
