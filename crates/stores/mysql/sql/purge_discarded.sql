-- purge_discarded: removes dead letters that were discarded ? microseconds ago or earlier, ? at most.
-- Concurrency: nobody else touches them but another cleaner. Index: posthaste_parked_state.
DELETE FROM posthaste_parked
WHERE state = 'discarded' AND state_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
LIMIT ?
