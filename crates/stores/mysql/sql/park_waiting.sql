-- park_waiting: puts rows of the log aside for route :route, which takes their topics only now;
-- :rows is a JSON array of [seq, bucket]. A message that is parked already stays as it is. Which message
-- of a key is tried first is decided afterwards (hold_followers, promote_heads).
-- Concurrency: with route and leases locked. Index: primary key (one lookup a row).
INSERT INTO posthaste_parked (
    route, seq, bucket, id, topic, `key`, `type`, headers, content_type, created_at,
    state, parked_at, state_at, next_attempt_at, payload_bytes, payload)
SELECT
    :route,
    log.seq,
    waiting.bucket,
    log.id,
    log.topic,
    log.`key`,
    log.`type`,
    log.headers,
    log.content_type,
    log.created_at,
    'retrying',
    UTC_TIMESTAMP(6),
    UTC_TIMESTAMP(6),
    IF(log.`key` IS NULL, UTC_TIMESTAMP(6), NULL),
    log.payload_bytes,
    log.payload
FROM JSON_TABLE(:rows, '$[*]' COLUMNS (seq BIGINT PATH '$[0]', bucket INT PATH '$[1]')) AS waiting
STRAIGHT_JOIN posthaste_log AS log FORCE INDEX (PRIMARY) ON log.seq = waiting.seq
ON DUPLICATE KEY UPDATE posthaste_parked.seq = posthaste_parked.seq
