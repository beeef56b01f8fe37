-- inbox_rebury: the redriven dead letter :id of consumer :consumer failed again: :attempts attempts, the
-- error's :class and :detail. Changes no row where another has handled it meanwhile: it must not come
-- back.
-- Concurrency: waits for whoever handles it. Index: primary key.
UPDATE posthaste_inbox_dead
SET
    state = 'dead',
    attempts = :attempts,
    last_error_class = :class,
    last_error = :detail,
    state_at = UTC_TIMESTAMP(6)
WHERE id = :id AND consumer = :consumer AND state = 'retrying'
