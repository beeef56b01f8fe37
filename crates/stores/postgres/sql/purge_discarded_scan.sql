-- purge_discarded_scan: route and seq of messages that were discarded `:retention` microseconds ago or
-- earlier, locked; the first `:limit` of them.
-- Concurrency: skips messages that another purge has locked. Index: parked_discarded.
SELECT
    route,
    seq
FROM posthaste.parked
WHERE state = 'discarded'
    AND state_at <= clock_timestamp() - :retention * interval '1 microsecond'
ORDER BY state_at
LIMIT :limit
FOR UPDATE SKIP LOCKED
