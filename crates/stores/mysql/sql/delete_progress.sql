-- delete_progress: forgets the progress of the old layout of route :route: its shards served other keys.
-- Concurrency: with route and leases locked. Index: primary key (range).
DELETE FROM posthaste_progress
WHERE route = :route
