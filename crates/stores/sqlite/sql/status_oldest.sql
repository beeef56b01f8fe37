-- status_oldest: what decides whether a row after seq ?1 is still to be passed, and its age; of the
-- next ?2 rows.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (range).
SELECT
    seq,
    topic,
    key,
    unixepoch('subsec') - created_at AS age
FROM posthaste_outbox
WHERE seq > ?1
ORDER BY seq
LIMIT ?2
