-- inbox_discard: dead letters of consumers that match (filter as for inbox_letters) are given up by
-- :by because of :why.
-- Concurrency: in a transaction of its own. Index: posthaste_inbox_dead_state.
UPDATE posthaste_inbox_dead
SET
    state = 'discarded',
    state_at = unixepoch('subsec'),
    acted_by = :by,
    acted_why = :why
WHERE state = 'dead'
    AND (:route IS NULL OR consumer = :route)
    AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND (:topic IS NULL OR topic = :topic)
    AND (:class IS NULL OR last_error_class = :class)
