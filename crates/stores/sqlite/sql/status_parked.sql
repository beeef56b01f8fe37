-- status_parked: parked messages of route :route that are retrying, and that are dead, each counted up to
-- 10,000, and for how long the oldest is retrying.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_state.
SELECT
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM posthaste_parked
            WHERE route = :route AND state = 'retrying'
            LIMIT 10000)
    ),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM posthaste_parked
            WHERE route = :route AND state = 'dead'
            LIMIT 10000)
    ),
    (
        SELECT CAST((unixepoch('subsec') - min(state_at)) * 1000000 AS INTEGER)
        FROM posthaste_parked
        WHERE route = :route AND state = 'retrying'
    )
