-- inbox_rebury: the redriven dead letter ?2 of consumer ?1 failed again: ?3 attempts, class ?4, error
-- ?5. None where another has handled it meanwhile: it must not come back.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
UPDATE posthaste_inbox_dead
SET
    state = 'dead',
    attempts = ?3,
    last_error_class = ?4,
    last_error = ?5,
    state_at = unixepoch('subsec')
WHERE consumer = ?1 AND id = ?2 AND state = 'retrying'
