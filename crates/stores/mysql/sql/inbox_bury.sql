-- inbox_bury: a dead letter of consumer :consumer (:id and the other columns of a message, :source, :seq,
-- :attempts, the error's :class and :detail), or the latest about one whose id was forgotten and that
-- came again.
-- Concurrency: waits for whoever changes the same letter. Index: primary key.
INSERT INTO posthaste_inbox_dead (
    consumer, id, source, seq, topic, `key`, `type`, headers, content_type, payload, attempts,
    first_error_class, first_error, last_error_class, last_error)
VALUES (
    :consumer, :id, :source, :seq, :topic, :key, :type, :headers, :content_type, :payload, :attempts,
    :class, :detail, :class, :detail)
ON DUPLICATE KEY UPDATE
    state = 'dead',
    attempts = VALUES(attempts),
    last_error_class = VALUES(last_error_class),
    last_error = VALUES(last_error),
    state_at = UTC_TIMESTAMP(6)
