-- undelivered: the first parked messages that may still come, of route ?, of ? shards the one of index
-- ?, at most ?: those that retry, then those that are dead, with the same arguments each, then how many
-- in all.
-- Concurrency: reads; complete where nobody else settles for the shard.
-- Index: posthaste_parked_undelivered, covering, in order for each state.
(
    SELECT seq
    FROM posthaste_parked
    WHERE route = ?
        AND state = 'retrying'
        AND bucket MOD ? = ?
    ORDER BY seq
    LIMIT ?
)
UNION ALL (
    SELECT seq
    FROM posthaste_parked
    WHERE route = ?
        AND state = 'dead'
        AND bucket MOD ? = ?
    ORDER BY seq
    LIMIT ?
)
ORDER BY seq
LIMIT ?
