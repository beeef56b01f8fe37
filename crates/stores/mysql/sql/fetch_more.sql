-- fetch_more: whether there are messages that a scan up to seq :end, the end of the log, has not seen: in
-- the outbox, or moved by another relay since. One statement, so one view: a message is in one of the two.
-- Concurrency: reads, waits for nobody. Index: primary keys (the first entry of the outbox's).
SELECT
    EXISTS (SELECT 1 FROM posthaste_outbox)
    OR (SELECT seq FROM posthaste_sequencer WHERE one = 1) > :end
