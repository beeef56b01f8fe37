-- status_log: the seq before the first row of the log, and its end. Nothing is outside of the log.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (both ends).
SELECT
    coalesce((SELECT min(seq) FROM posthaste_outbox) - 1, 0),
    coalesce((SELECT max(seq) FROM posthaste_outbox), 0),
    0
