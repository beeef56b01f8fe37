-- undelivered: the first :limit parked messages that may still come, of route :route, of :of shards the
-- one of index :index: those that are retrying and those that are dead.
-- Concurrency: reads; complete where nobody else settles for the shard.
-- Index: posthaste_parked_undelivered, covering, in order for each state.
(
    SELECT seq
    FROM posthaste_parked
    WHERE route = :route
        AND state = 'retrying'
        AND bucket MOD :of = :index
    ORDER BY seq
    LIMIT :limit
)
UNION ALL (
    SELECT seq
    FROM posthaste_parked
    WHERE route = :route
        AND state = 'dead'
        AND bucket MOD :of = :index
    ORDER BY seq
    LIMIT :limit
)
ORDER BY seq
LIMIT :limit
