-- redrive: dead letters that match the filter (?1 route, ?2 JSON array of ids, ?3 topic, ?4 class)
-- are tried again, on behalf of ?5. Who has to wait is settled afterwards (hold_followers).
-- Concurrency: in a transaction of its own; changes dead letters only. Index: posthaste_parked_state.
UPDATE posthaste_parked
SET
    state = 'retrying',
    blocks = 0,
    attempts = 0,
    unknowns = 0,
    redriven = redriven + 1,
    state_at = unixepoch('subsec'),
    next_attempt_at = unixepoch('subsec'),
    acted_by = ?5,
    acted_why = 'redrive'
WHERE state = 'dead'
    AND (?1 IS NULL OR route = ?1)
    AND (?2 IS NULL OR id IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR topic = ?3)
    AND (?4 IS NULL OR last_error_class = ?4)
RETURNING route, key
