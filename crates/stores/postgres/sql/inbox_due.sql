-- inbox_due: redriven dead letters of consumer `:consumer`, `:limit` at most. When they were enqueued is
-- not known.
-- Concurrency: reads; handling one removes it first. Index: inbox_dead_state.
SELECT
    coalesce(seq, 0),
    id,
    topic,
    key,
    type,
    headers::text,
    content_type,
    NULL::int8,
    payload,
    attempts,
    redriven,
    source,
    seq
FROM posthaste.inbox_dead
WHERE consumer = :consumer AND state = 'retrying'
ORDER BY state_at, id
LIMIT :limit
