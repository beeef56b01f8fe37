-- undelivered: the first `:limit` parked messages that may still come, of shard `:index` of `:of` of route
-- `:route`.
-- Concurrency: reads; complete where nobody else settles for the shard.
-- Index: parked_undelivered.
SELECT seq
FROM posthaste.parked
WHERE route = :route
    AND state <> 'discarded'
    AND bucket % :of = :index
ORDER BY seq
LIMIT :limit
