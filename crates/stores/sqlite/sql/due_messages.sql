-- due_messages: the parked messages of the seqs in the JSON array ?2.
-- Concurrency: reads a snapshot; what was settled since due_heads is left out. Index: primary key.
SELECT
    seq,
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    attempts,
    unknowns,
    redriven,
    created_at,
    unixepoch('subsec') - created_at AS age,
    payload
FROM posthaste_parked
WHERE route = ?1 AND seq IN (SELECT value FROM json_each(?2)) AND state = 'retrying'
