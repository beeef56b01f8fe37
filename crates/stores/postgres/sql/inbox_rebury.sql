-- inbox_rebury: the redriven dead letter `:id` of consumer `:consumer` failed again: `:attempts`, `:class`
-- and `:detail` of the error. Writes nothing where another has handled it meanwhile: it must not come back.
-- Concurrency: waits for whoever handles it. Index: inbox_dead_pkey.
UPDATE posthaste.inbox_dead
SET
    state = 'dead',
    attempts = :attempts,
    last_error_class = :class,
    last_error = :detail,
    state_at = clock_timestamp()
WHERE consumer = :consumer AND id = :id AND state = 'retrying'
