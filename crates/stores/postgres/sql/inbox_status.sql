-- inbox_status: for each consumer the age of the oldest id in microseconds, lanes and their counts, and
-- dead letters. Consumers are found by skipping from one to the next, not by reading every id.
-- Concurrency: reads. Index: inbox_at, inbox_lane_pkey, inbox_dead_state.
WITH RECURSIVE by_id (consumer) AS (
    (SELECT consumer FROM posthaste.inbox ORDER BY consumer LIMIT 1)
    UNION ALL
    SELECT (
        SELECT next.consumer
        FROM posthaste.inbox AS next
        WHERE next.consumer > by_id.consumer
        ORDER BY next.consumer
        LIMIT 1
    )
    FROM by_id
    WHERE by_id.consumer IS NOT NULL
),
consumers AS (
    SELECT consumer FROM by_id WHERE consumer IS NOT NULL
    UNION
    SELECT consumer FROM posthaste.inbox_lane
    UNION
    SELECT consumer FROM posthaste.inbox_dead
)
SELECT
    consumers.consumer,
    (extract(epoch FROM clock_timestamp() - (
        SELECT inbox.at
        FROM posthaste.inbox AS inbox
        WHERE inbox.consumer = consumers.consumer
        ORDER BY inbox.at
        LIMIT 1
    )) * 1000000)::int8,
    count(lane.lane),
    coalesce(sum(lane.handled), 0)::bigint,
    coalesce(sum(lane.reordered), 0)::bigint,
    coalesce(sum(lane.impossible), 0)::bigint,
    (
        SELECT count(*)
        FROM posthaste.inbox_dead AS dead
        WHERE dead.consumer = consumers.consumer AND dead.state = 'dead'
    )
FROM consumers
LEFT JOIN posthaste.inbox_lane AS lane ON lane.consumer = consumers.consumer
GROUP BY consumers.consumer
ORDER BY consumers.consumer
