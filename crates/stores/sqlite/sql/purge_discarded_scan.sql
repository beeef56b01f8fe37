-- purge_discarded_scan: up to :limit messages that were discarded :retention microseconds ago or earlier.
-- Concurrency: in the transaction that removes them. Index: posthaste_parked_state.
SELECT
    route,
    seq
FROM posthaste_parked
WHERE state = 'discarded' AND state_at <= unixepoch('subsec') - :retention / 1000000.0
LIMIT :limit
