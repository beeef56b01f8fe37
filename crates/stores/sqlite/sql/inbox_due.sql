-- inbox_due: redriven dead letters of consumer ?1, ?2 at most.
-- Concurrency: reads; handling one removes it first. Index: posthaste_inbox_dead_state.
SELECT
    id,
    source,
    seq,
    topic,
    key,
    type,
    headers,
    content_type,
    attempts,
    redriven,
    payload
FROM posthaste_inbox_dead
WHERE consumer = ?1 AND state = 'retrying'
ORDER BY state_at, id
LIMIT ?2
