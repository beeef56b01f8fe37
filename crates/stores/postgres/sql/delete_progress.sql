-- delete_progress: forgets the progress of a route's old layout: its shards were other keys.
-- Concurrency: with route and leases locked. Index: progress_pkey.
DELETE FROM posthaste.progress
WHERE route = $1
