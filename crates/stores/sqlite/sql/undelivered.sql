-- undelivered: the first ?4 parked messages of a shard (?2 of ?3) that may still come.
-- Concurrency: reads; complete where nobody else settles for the shard.
-- Index: posthaste_parked_undelivered, covering.
SELECT seq
FROM posthaste_parked
WHERE route = ?1
    AND state <> 'discarded'
    AND bucket % ?3 = ?2
ORDER BY seq
LIMIT ?4
