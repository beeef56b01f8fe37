-- status_rewinds: the latest `:limit` times at which a log was found to have gone back in time: route,
-- microseconds since, and the relay that found it.
-- Concurrency: reads. Index: rewind_pkey, backwards.
SELECT
    route,
    (extract(epoch FROM clock_timestamp() - at) * 1000000)::int8,
    relay::text
FROM posthaste.rewind
ORDER BY n DESC
LIMIT :limit
