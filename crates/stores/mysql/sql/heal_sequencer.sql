-- heal_sequencer: the end of the log is not below anything that was ever in it, even where a dump
-- was not taken in one transaction. Changes nothing otherwise, but fails where nothing can be
-- written.
-- Concurrency: waits for a move in flight. Index: primary keys; progress is small.
UPDATE posthaste_sequencer
SET seq = GREATEST(
    seq,
    COALESCE((SELECT MAX(seq) FROM posthaste_log), 0),
    COALESCE((SELECT MAX(seq) FROM posthaste_progress), 0))
WHERE one = 1
