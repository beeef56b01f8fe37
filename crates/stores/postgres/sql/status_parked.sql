-- status_parked: how many parked messages of route `:route` are retrying, and how many are dead, each
-- counted up to 10,000, and for how many microseconds the oldest is retrying. Counted messages are in the
-- order of their index, so that no more than those rows are read.
-- Concurrency: reads. Index: parked_retrying, parked_dead.
SELECT
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM posthaste.parked
            WHERE route = :route AND state = 'retrying'
            ORDER BY state_at
            LIMIT 10000
        ) AS retrying
    ),
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM posthaste.parked
            WHERE route = :route AND state = 'dead'
            ORDER BY seq
            LIMIT 10000
        ) AS dead
    ),
    (
        SELECT (extract(epoch FROM clock_timestamp() - min(state_at)) * 1000000)::int8
        FROM posthaste.parked
        WHERE route = :route AND state = 'retrying'
    )
