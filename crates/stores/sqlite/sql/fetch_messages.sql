-- fetch_messages: the messages of the seqs in the JSON array ?1, ascending.
-- Concurrency: reads a snapshot, waits for nobody. Rows never change, so it need not be that of
-- fetch_scan. Index: primary key (one lookup a message).
SELECT
    seq,
    id,
    topic,
    key,
    type,
    headers,
    content_type,
    created_at,
    unixepoch('subsec') - created_at AS age,
    payload
FROM posthaste_outbox
WHERE seq IN (SELECT value FROM json_each(?1))
ORDER BY seq
