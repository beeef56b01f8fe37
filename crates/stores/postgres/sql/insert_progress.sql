-- insert_progress: a journal entry with position `:position`, up to seq `:seq`, for every lease of route
-- `:route`.
-- Concurrency: with route and leases locked. Index: lease_pkey.
INSERT INTO posthaste.progress (route, shard, epoch, position, seq)
SELECT
    route,
    shard,
    epoch,
    :position,
    :seq
FROM posthaste.lease
WHERE route = :route
