-- settle_park: puts a message aside; one that is there already stays as it is. Who has to wait for
-- an older one of the key is settled afterwards (hold_followers).
-- Concurrency: behind the fence, in its transaction. Index: primary key; that of the log for the
-- exact time of creation, where it still has the row.
INSERT INTO posthaste_parked (
    route, seq, bucket, id, topic, `key`, `type`, headers, content_type, created_at,
    state, blocks, attempts, unknowns,
    first_error_class, first_error, last_error_class, last_error,
    parked_at, state_at, next_attempt_at, payload_bytes, payload)
SELECT
    ?, ?, ?, ?, ?, ?, ?, ?, ?,
    COALESCE(
        (SELECT log.created_at FROM posthaste_log AS log WHERE log.seq = ?),
        UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND),
    ?, ?, ?, ?,
    ?, ?, ?, ?,
    UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, ?
FROM DUAL
ON DUPLICATE KEY UPDATE posthaste_parked.seq = posthaste_parked.seq
