-- status_parked: parked messages of route ?1 that are retrying, and that are dead, each counted up to
-- 10,000, and for how many seconds the oldest is retrying.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_state.
SELECT
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM posthaste_parked
            WHERE route = ?1 AND state = 'retrying'
            LIMIT 10000)
    ),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM posthaste_parked
            WHERE route = ?1 AND state = 'dead'
            LIMIT 10000)
    ),
    coalesce(
        (
            SELECT unixepoch('subsec') - min(state_at)
            FROM posthaste_parked
            WHERE route = ?1 AND state = 'retrying'
        ),
        0.0)
