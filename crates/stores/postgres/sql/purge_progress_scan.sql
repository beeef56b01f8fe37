-- purge_progress_scan: the next `:limit` entries in the journal of shard `:shard` of route `:route`, from
-- (`:epoch`, `:n`) on, that one included: epoch, n, whether the entry is older than `:retention`
-- microseconds, and its minute.
-- Concurrency: reads. Index: progress_pkey, in order.
SELECT
    epoch,
    n,
    at <= clock_timestamp() - :retention * interval '1 microsecond',
    floor(extract(epoch FROM at) / 60)::int8
FROM posthaste.progress
WHERE route = :route
    AND shard = :shard
    AND (epoch, n) >= (:epoch, :n)
ORDER BY epoch, n
LIMIT :limit
