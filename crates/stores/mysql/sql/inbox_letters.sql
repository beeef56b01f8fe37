-- inbox_letters: the first :limit dead letters of consumers that match the filter (consumer :route, JSON
-- array :ids, topic :topic, class of the last error :class, each NULL for any), discarded ones only by
-- id.
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
    0,
    redriven,
    NULL,
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
WHERE (state = 'dead' OR (state = 'discarded' AND :ids IS NOT NULL))
    AND (:route IS NULL OR consumer = :route)
    AND (
        :ids IS NULL
        OR id IN (
            SELECT wanted.id
            FROM JSON_TABLE(
                :ids,
                '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$')
            ) AS wanted))
    AND (:topic IS NULL OR topic = :topic)
    AND (:class IS NULL OR last_error_class = :class)
ORDER BY dead_at, consumer, id
LIMIT :limit
