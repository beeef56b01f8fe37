-- inbox_due: redriven dead letters of consumer :consumer, :limit at most.
-- Concurrency: reads; whoever handles one removes it first. Index: posthaste_inbox_dead_state.
SELECT
    COALESCE(seq, 0),
    id,
    topic,
    `key`,
    `type`,
    headers,
    content_type,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', dead_at),
    payload,
    attempts,
    redriven,
    source,
    seq
FROM posthaste_inbox_dead
WHERE consumer = :consumer AND state = 'retrying'
ORDER BY state_at, id
LIMIT :limit
