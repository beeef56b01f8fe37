-- inbox_rebury: the redriven dead letter $2 of consumer $1 failed again: $3 attempts, class $4, error
-- $5. None where another has handled it meanwhile: it must not come back.
-- Concurrency: waits for whoever handles it. Index: inbox_dead_pkey.
UPDATE posthaste.inbox_dead
SET
    state = 'dead',
    attempts = $3,
    last_error_class = $4,
    last_error = $5,
    state_at = clock_timestamp()
WHERE consumer = $1 AND id = $2 AND state = 'retrying'
