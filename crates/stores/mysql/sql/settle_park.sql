-- settle_park: parks the message of seq :seq (:bucket, :id and the other columns of a message, :age) for
-- route :route: :state, :blocks, :attempts, :unknowns, the error's :class and :detail, the next attempt
-- in :delay. A message that is parked already stays as it is. Which messages have to wait for an older one
-- of their key is decided afterwards (hold_followers).
-- Concurrency: behind the fence, in its transaction. Index: primary key; that of the log for the
-- exact time of creation, where it still has the row.
INSERT INTO posthaste_parked (
    route, seq, bucket, id, topic, `key`, `type`, headers, content_type, created_at,
    state, blocks, attempts, unknowns,
    first_error_class, first_error, last_error_class, last_error,
    parked_at, state_at, next_attempt_at, payload_bytes, payload)
SELECT
    :route, :seq, :bucket, :id, :topic, :key, :type, :headers, :content_type,
    COALESCE(
        (SELECT log.created_at FROM posthaste_log AS log WHERE log.seq = :seq),
        UTC_TIMESTAMP(6) - INTERVAL :age MICROSECOND),
    :state, :blocks, :attempts, :unknowns,
    :class, :detail, :class, :detail,
    UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL :delay MICROSECOND,
    :payload_bytes, :payload
FROM DUAL
ON DUPLICATE KEY UPDATE posthaste_parked.seq = posthaste_parked.seq
