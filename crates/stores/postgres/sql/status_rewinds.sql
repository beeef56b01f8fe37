-- status_rewinds: the latest times at which the log was found to have gone back, $1 at most.
-- Concurrency: reads. Index: rewind_pkey, backwards.
SELECT route, date_part('epoch', clock_timestamp() - at), relay::text
FROM posthaste.rewind
ORDER BY n DESC
LIMIT $1
