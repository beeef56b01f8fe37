-- undelivered: the first :limit parked messages of a shard (:index of :of) that may still come.
-- Concurrency: reads; complete where nobody else settles for the shard.
-- Index: posthaste_parked_undelivered, covering.
SELECT seq
FROM posthaste_parked
WHERE route = :route
    AND state <> 'discarded'
    AND bucket % :of = :index
ORDER BY seq
LIMIT :limit
