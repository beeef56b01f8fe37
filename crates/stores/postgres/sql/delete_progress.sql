-- delete_progress: forgets the progress of the old layout of route `:route`: its shards were other keys.
-- Concurrency: with route and leases locked. Index: progress_pkey.
DELETE FROM posthaste.progress
WHERE route = :route
