-- inbox_purge_dead: removes up to :limit dead letters of consumer :consumer discarded more than :window microseconds ago.
-- Concurrency: in the transaction of inbox_purge. Index: posthaste_inbox_dead_state.
DELETE FROM posthaste_inbox_dead
WHERE rowid IN (
    SELECT rowid
    FROM posthaste_inbox_dead
    WHERE consumer = :consumer AND state = 'discarded' AND state_at < unixepoch('subsec') - :window / 1000000.0
    LIMIT :limit)
