-- inbox_purge_dead: removes up to ?3 dead letters of consumer ?1 discarded more than ?2 seconds ago.
-- Concurrency: in the transaction of inbox_purge. Index: posthaste_inbox_dead_state.
DELETE FROM posthaste_inbox_dead
WHERE rowid IN (
    SELECT rowid
    FROM posthaste_inbox_dead
    WHERE consumer = ?1 AND state = 'discarded' AND state_at < unixepoch('subsec') - ?2
    LIMIT ?3)
