-- purge_discarded_scan: dead letters that were discarded :retention ago or earlier, locked; :limit at
-- most.
-- Concurrency: skips rows that somebody has locked. Index: posthaste_parked_state.
SELECT
    route,
    seq
FROM posthaste_parked
WHERE state = 'discarded' AND state_at <= UTC_TIMESTAMP(6) - INTERVAL :retention MICROSECOND
LIMIT :limit
FOR UPDATE SKIP LOCKED
