-- inbox_rebury: a redriven dead letter failed again: ? attempts, class ?, error ?; its id ?, its
-- consumer ?. None where another has handled it meanwhile: it must not come back.
-- Concurrency: waits for whoever handles it. Index: primary key.
UPDATE posthaste_inbox_dead
SET
    state = 'dead',
    attempts = ?,
    last_error_class = ?,
    last_error = ?,
    state_at = UTC_TIMESTAMP(6)
WHERE id = ? AND consumer = ? AND state = 'retrying'
