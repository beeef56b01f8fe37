-- inbox_status: per consumer the age of the oldest id, lanes and their counts, and dead letters.
-- Consumers are found by skipping from one to the next, not by reading every id.
-- Concurrency: reads. Index: posthaste_inbox_at, posthaste_inbox_dead_state, primary key.
WITH RECURSIVE by_id (consumer) AS (
    SELECT min(consumer) FROM posthaste_inbox
    UNION ALL
    SELECT (
        SELECT min(next.consumer)
        FROM posthaste_inbox AS next
        WHERE next.consumer > by_id.consumer)
    FROM by_id
    WHERE by_id.consumer IS NOT NULL
),
consumers AS (
    SELECT consumer FROM by_id WHERE consumer IS NOT NULL
    UNION
    SELECT consumer FROM posthaste_inbox_lane
    UNION
    SELECT consumer FROM posthaste_inbox_dead
)
SELECT
    consumers.consumer AS consumer,
    CAST((unixepoch('subsec') - (
        SELECT min(inbox.at)
        FROM posthaste_inbox AS inbox
        WHERE inbox.consumer = consumers.consumer)) * 1000000 AS INTEGER),
    count(lane.lane) AS lanes,
    coalesce(sum(lane.handled), 0) AS handled,
    coalesce(sum(lane.reordered), 0) AS reordered,
    coalesce(sum(lane.impossible), 0) AS impossible,
    (
        SELECT count(*)
        FROM posthaste_inbox_dead AS dead
        WHERE dead.consumer = consumers.consumer AND dead.state = 'dead') AS dead
FROM consumers
LEFT JOIN posthaste_inbox_lane AS lane ON lane.consumer = consumers.consumer
GROUP BY consumers.consumer
ORDER BY consumers.consumer
