-- inbox_bury: adds a dead letter of consumer `:consumer`, or writes the latest error of one whose id was
-- forgotten and that came again.
-- Concurrency: waits for whoever changes the same one. Index: inbox_dead_pkey.
INSERT INTO posthaste.inbox_dead (
    consumer,
    id,
    source,
    seq,
    topic,
    key,
    type,
    payload,
    headers,
    content_type,
    attempts,
    first_error_class,
    first_error,
    last_error_class,
    last_error
)
VALUES (
    :consumer,
    :id,
    :source,
    :seq,
    :topic,
    :key,
    :type,
    :payload,
    :headers::text::json,
    :content_type,
    :attempts,
    :class,
    :detail,
    :class,
    :detail
)
ON CONFLICT (consumer, id) DO UPDATE
SET
    state = 'dead',
    attempts = excluded.attempts,
    last_error_class = excluded.last_error_class,
    last_error = excluded.last_error,
    state_at = clock_timestamp()
