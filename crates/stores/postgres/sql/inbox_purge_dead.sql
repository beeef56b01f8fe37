-- inbox_purge_dead: removes up to `:limit` dead letters of consumer `:consumer` that were discarded more
-- than `:window` microseconds ago.
-- Concurrency: skips letters that another purge has locked. Index: inbox_dead_state, inbox_dead_pkey.
DELETE FROM posthaste.inbox_dead
WHERE consumer = :consumer AND id IN (
    SELECT id
    FROM posthaste.inbox_dead
    WHERE consumer = :consumer
        AND state = 'discarded'
        AND state_at < clock_timestamp() - :window * interval '1 microsecond'
    ORDER BY state_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
