-- status_parked: parked messages of route :route that are retrying, and that are dead, each counted up to
-- 10,000, and for how long the oldest of them is retrying.
-- Concurrency: reads. Index: posthaste_parked_state.
SELECT
    (
        SELECT COUNT(*)
        FROM (
            SELECT 1
            FROM posthaste_parked
            WHERE route = :route AND state = 'retrying'
            LIMIT 10000) AS retrying
    ),
    (
        SELECT COUNT(*)
        FROM (
            SELECT 1
            FROM posthaste_parked
            WHERE route = :route AND state = 'dead'
            LIMIT 10000) AS dead
    ),
    COALESCE(
        (
            SELECT TIMESTAMPDIFF(MICROSECOND, MIN(state_at), UTC_TIMESTAMP(6))
            FROM posthaste_parked FORCE INDEX (posthaste_parked_state)
            WHERE route = :route AND state = 'retrying'
        ),
        0)
