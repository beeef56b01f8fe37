-- status_rewinds: the latest times at which the log was found to have gone back, :limit at most.
-- Concurrency: reads. Index: primary key, backwards.
SELECT
    route,
    TIMESTAMPDIFF(MICROSECOND, at, UTC_TIMESTAMP(6)),
    relay
FROM posthaste_rewind
ORDER BY n DESC
LIMIT :limit
