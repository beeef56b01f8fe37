-- inbox_bury: a dead letter, or the latest about one whose id was forgotten and that came again.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
INSERT INTO posthaste_inbox_dead (
    consumer, id, source, seq, topic, key, type, headers, content_type, payload, attempts,
    first_error_class, first_error, last_error_class, last_error)
VALUES (
    :consumer, :id, :source, :seq, :topic, :key, :type, :headers, :content_type, :payload,
    :attempts, :class, :detail, :class, :detail)
ON CONFLICT (consumer, id) DO UPDATE
SET
    state = 'dead',
    attempts = excluded.attempts,
    last_error_class = excluded.last_error_class,
    last_error = excluded.last_error,
    state_at = unixepoch('subsec')
