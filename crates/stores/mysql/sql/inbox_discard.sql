-- inbox_discard: :by gives up, because of :why, the dead letters that match the filter (consumer :route,
-- JSON array :ids, topic :topic, class of the last error :class, each NULL for any).
-- Concurrency: row locks. Index: primary key, or posthaste_inbox_dead_state.
UPDATE posthaste_inbox_dead
SET
    state = 'discarded',
    state_at = UTC_TIMESTAMP(6),
    acted_by = :by,
    acted_why = :why
WHERE state = 'dead'
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
