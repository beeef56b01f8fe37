-- inbox_purge_dead: removes dead letters of consumer :consumer that were discarded longer than :window
-- ago, :limit at most.
-- Concurrency: nobody else touches them but another cleaner. Index: posthaste_inbox_dead_state.
DELETE FROM posthaste_inbox_dead
WHERE consumer = :consumer
    AND state = 'discarded'
    AND state_at < UTC_TIMESTAMP(6) - INTERVAL :window MICROSECOND
LIMIT :limit
