-- purge_discarded: removes up to ?2 dead letters that were discarded ?1 seconds ago or earlier.
-- Concurrency: in the transaction of purge_messages. Index: posthaste_parked_state.
DELETE FROM posthaste_parked
WHERE rowid IN (
    SELECT rowid
    FROM posthaste_parked
    WHERE state = 'discarded' AND state_at <= unixepoch('subsec') - ?1
    LIMIT ?2)
