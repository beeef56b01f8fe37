-- status_oldest: what decides whether a row after seq :after is still to be passed, and its age; of the
-- next :limit rows.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (range).
SELECT
    seq,
    topic,
    key,
    CAST((unixepoch('subsec') - created_at) * 1000000 AS INTEGER)
FROM posthaste_outbox
WHERE seq > :after
ORDER BY seq
LIMIT :limit
