-- status_log: the seq before the first row of the log, its end, and how many messages are not in it yet:
-- counted up to 10,000; beyond, the distance of their seqs.
-- Concurrency: reads, waits for nobody. Index: both ends of the primary keys.
SELECT
    COALESCE((SELECT MIN(seq) - 1 FROM posthaste_log), last.seq),
    last.seq,
    IF(
        outside.messages < 10000,
        outside.messages,
        COALESCE((SELECT MAX(seq) - MIN(seq) + 1 FROM posthaste_outbox), 0))
FROM posthaste_sequencer AS last
CROSS JOIN (
    SELECT COUNT(*) AS messages
    FROM (SELECT 1 FROM posthaste_outbox LIMIT 10000) AS counted
) AS outside
WHERE last.one = 1
