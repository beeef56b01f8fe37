-- status_oldest: seq, topic, key and age of the next rows of the log after seq :after, then of the first
-- messages that are not in it yet, which have no place there and so no seq; :limit in all.
-- Concurrency: reads, waits for nobody. Index: primary keys (range).
SELECT
    pending.seq,
    pending.topic,
    pending.`key`,
    TIMESTAMPDIFF(MICROSECOND, pending.created_at, UTC_TIMESTAMP(6))
FROM (
    (
        SELECT
            seq,
            topic,
            `key`,
            created_at,
            0 AS is_outside,
            seq AS place
        FROM posthaste_log
        WHERE seq > :after
        ORDER BY seq
        LIMIT :limit
    )
    UNION ALL (
        SELECT
            NULL,
            CAST(topic AS BINARY),
            CAST(`key` AS BINARY),
            created_at,
            1,
            seq
        FROM posthaste_outbox
        ORDER BY seq
        LIMIT :limit
    )
) AS pending
ORDER BY pending.is_outside, pending.place
LIMIT :limit
