-- status_oldest: what decides whether a row is still to be passed, and its age in microseconds: the
-- next 1,000 rows of the log after seq ?, then the first 1,000 that are not in it yet, which have no
-- place there and so no seq.
-- Concurrency: reads, waits for nobody. Index: primary keys (range).
(
    SELECT
        seq,
        topic,
        `key`,
        TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6))
    FROM posthaste_log
    WHERE seq > ?
    ORDER BY seq
    LIMIT 1000
)
UNION ALL (
    SELECT
        NULL,
        CAST(topic AS BINARY),
        CAST(`key` AS BINARY),
        TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6))
    FROM posthaste_outbox
    ORDER BY seq
    LIMIT 1000
)
