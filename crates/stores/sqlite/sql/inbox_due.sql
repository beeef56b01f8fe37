-- inbox_due: redriven dead letters of consumer :consumer, :limit at most.
-- Concurrency: reads; handling one removes it first. Index: posthaste_inbox_dead_state.
SELECT
    coalesce(seq, 0),
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    CAST(round(dead_at * 1000) AS INTEGER) * 1000,
    payload,
    attempts,
    redriven,
    source,
    seq
FROM posthaste_inbox_dead
WHERE consumer = :consumer AND state = 'retrying'
ORDER BY state_at, id
LIMIT :limit
