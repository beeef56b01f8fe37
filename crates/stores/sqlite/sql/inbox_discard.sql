-- inbox_discard: dead letters of consumers that match (filter as for inbox_letters) are given up by
-- ?5 because of ?6.
-- Concurrency: in a transaction of its own. Index: posthaste_inbox_dead_state.
UPDATE posthaste_inbox_dead
SET
    state = 'discarded',
    state_at = unixepoch('subsec'),
    acted_by = ?5,
    acted_why = ?6
WHERE state = 'dead'
    AND (?1 IS NULL OR consumer = ?1)
    AND (?2 IS NULL OR id IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR topic = ?3)
    AND (?4 IS NULL OR last_error_class = ?4)
