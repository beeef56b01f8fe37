-- inbox_bury: a dead letter, or the latest about one whose id was forgotten and that came again.
-- Concurrency: waits for whoever changes the same one. Index: primary key.
INSERT INTO posthaste_inbox_dead (
    consumer, id, source, seq, topic, `key`, `type`, headers, content_type, payload, attempts,
    first_error_class, first_error, last_error_class, last_error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE
    state = 'dead',
    attempts = VALUES(attempts),
    last_error_class = VALUES(last_error_class),
    last_error = VALUES(last_error),
    state_at = UTC_TIMESTAMP(6)
