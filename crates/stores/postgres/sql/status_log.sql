-- status_log: the seq before the first row of the log, the seq of its last row, and how many messages are
-- not in it yet: none, an outbox row is the log's.
-- Concurrency: reads. Index: outbox_pkey at both ends.
SELECT
    coalesce((SELECT min(seq) - 1 FROM posthaste.outbox), 0),
    coalesce((SELECT max(seq) FROM posthaste.outbox), 0),
    0
