-- status_rewinds: the latest times at which the log was found to have gone back, :limit at most.
-- Concurrency: reads a snapshot. Index: primary key, backwards.
SELECT
    route,
    CAST((unixepoch('subsec') - at) * 1000000 AS INTEGER),
    relay
FROM posthaste_rewind
ORDER BY n DESC
LIMIT :limit
