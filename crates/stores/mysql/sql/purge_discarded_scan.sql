-- purge_discarded_scan: dead letters that were discarded ? microseconds ago or earlier, locked; ? at
-- most.
-- Concurrency: skips what somebody has locked. Index: posthaste_parked_state.
SELECT
    route,
    seq
FROM posthaste_parked
WHERE state = 'discarded' AND state_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
LIMIT ?
FOR UPDATE SKIP LOCKED
