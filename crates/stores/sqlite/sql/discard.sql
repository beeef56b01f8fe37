-- discard: messages in state ?7 that match the filter (?1 route, ?2 JSON array of ids, ?3 topic, ?4
-- class) are given up by ?5 because of ?6.
-- Concurrency: in a transaction of its own. Index: posthaste_parked_state.
UPDATE posthaste_parked
SET
    state = 'discarded',
    blocks = 0,
    next_attempt_at = NULL,
    state_at = unixepoch('subsec'),
    acted_by = ?5,
    acted_why = ?6
WHERE state = ?7
    AND (?1 IS NULL OR route = ?1)
    AND (?2 IS NULL OR id IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR topic = ?3)
    AND (?4 IS NULL OR last_error_class = ?4)
RETURNING route, key
