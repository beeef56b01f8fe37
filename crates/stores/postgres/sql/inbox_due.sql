-- inbox_due: redriven dead letters of consumer $1, $2 at most.
-- Concurrency: reads; handling one removes it first. Index: inbox_dead_state.
SELECT
    coalesce(seq, 0),
    id,
    topic,
    key,
    type,
    payload,
    NULL::int,
    headers::text,
    content_type,
    NULL::float8,
    attempts,
    redriven,
    source,
    seq
FROM posthaste.inbox_dead
WHERE consumer = $1 AND state = 'retrying'
ORDER BY state_at, id
LIMIT $2
