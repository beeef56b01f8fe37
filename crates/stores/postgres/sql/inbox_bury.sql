-- inbox_bury: a dead letter, or the latest about one whose id was forgotten and that came again.
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
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::json, $10, $11, $12, $13, $12, $13)
ON CONFLICT (consumer, id) DO UPDATE
SET
    state = 'dead',
    attempts = excluded.attempts,
    last_error_class = excluded.last_error_class,
    last_error = excluded.last_error,
    state_at = clock_timestamp()
