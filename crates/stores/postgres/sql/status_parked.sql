-- status_parked: parked messages of route $1 that are retrying, and that are dead, each counted up to
-- 10,000, and for how many seconds the oldest is retrying. What is counted is ordered as its index is,
-- so that no more than those rows are read.
-- Concurrency: reads. Index: parked_retrying, parked_dead.
SELECT
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM posthaste.parked
            WHERE route = $1 AND state = 'retrying'
            ORDER BY state_at
            LIMIT 10000
        ) AS retrying
    ),
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM posthaste.parked
            WHERE route = $1 AND state = 'dead'
            ORDER BY seq
            LIMIT 10000
        ) AS dead
    ),
    (
        SELECT date_part('epoch', greatest(clock_timestamp() - min(state_at), interval '0'))
        FROM posthaste.parked
        WHERE route = $1 AND state = 'retrying'
    )
