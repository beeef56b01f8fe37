-- read_end: the end of the log: whatever is moved to it later lies beyond.
-- Concurrency: waits for a move in flight, whose messages were there before. Index: primary key.
SELECT seq
FROM posthaste_sequencer
WHERE one = 1
FOR UPDATE
