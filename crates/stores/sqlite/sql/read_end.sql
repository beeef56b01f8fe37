-- read_end: the end of the log, or of what a shard has read, whichever is further.
-- Concurrency: in the transaction that starts the resize: nothing below it is still to come.
-- Index: primary key.
SELECT max(
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'posthaste_outbox'), 0),
    coalesce((SELECT max(seq) FROM posthaste_progress WHERE route = :route), 0))
