-- inbox_rebury: the redriven dead letter :id of consumer :consumer failed again: :attempts attempts, class :class, error
-- :detail. None where another has handled it meanwhile: it must not come back.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
UPDATE posthaste_inbox_dead
SET
    state = 'dead',
    attempts = :attempts,
    last_error_class = :class,
    last_error = :detail,
    state_at = unixepoch('subsec')
WHERE consumer = :consumer AND id = :id AND state = 'retrying'
