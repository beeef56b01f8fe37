-- inbox_status: per consumer the age of the oldest id in microseconds, lanes and their counts, and
-- dead letters.
-- Concurrency: reads. Index: posthaste_inbox_at (loosely), posthaste_inbox_dead_state, primary key.
SELECT
    consumers.consumer,
    TIMESTAMPDIFF(
        MICROSECOND,
        (
            SELECT MIN(inbox.at)
            FROM posthaste_inbox AS inbox
            WHERE inbox.consumer = consumers.consumer),
        UTC_TIMESTAMP(6)),
    COUNT(lane.lane),
    CAST(COALESCE(SUM(lane.handled), 0) AS SIGNED),
    CAST(COALESCE(SUM(lane.reordered), 0) AS SIGNED),
    CAST(COALESCE(SUM(lane.impossible), 0) AS SIGNED),
    (
        SELECT COUNT(*)
        FROM posthaste_inbox_dead AS dead
        WHERE dead.consumer = consumers.consumer AND dead.state = 'dead')
FROM (
    SELECT DISTINCT consumer FROM posthaste_inbox
    UNION
    SELECT DISTINCT consumer FROM posthaste_inbox_lane
    UNION
    SELECT DISTINCT consumer FROM posthaste_inbox_dead
) AS consumers
LEFT JOIN posthaste_inbox_lane AS lane ON lane.consumer = consumers.consumer
GROUP BY consumers.consumer
ORDER BY consumers.consumer
