-- delete_progress: forgets the journal of the old layout, whose shards served other keys.
-- Concurrency: in the transaction that completes a resize. Index: primary key.
DELETE FROM posthaste_progress
WHERE route = :route
