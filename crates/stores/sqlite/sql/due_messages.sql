-- due_messages: the parked messages of the seqs in the JSON array :seqs.
-- Concurrency: reads a snapshot; what was settled since due_heads is left out. Index: primary key.
SELECT
    seq,
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    CAST(round(created_at * 1000) AS INTEGER) * 1000,
    payload,
    attempts,
    unknowns,
    redriven,
    CAST((unixepoch('subsec') - created_at) * 1000000 AS INTEGER)
FROM posthaste_parked
WHERE route = :route AND seq IN (SELECT value FROM json_each(:seqs)) AND state = 'retrying'
