-- status_rewinds: the latest times at which the log was found to have gone back, ?1 at most.
-- Concurrency: reads a snapshot. Index: primary key, backwards.
SELECT
    route,
    unixepoch('subsec') - at,
    relay
FROM posthaste_rewind
ORDER BY n DESC
LIMIT ?1
