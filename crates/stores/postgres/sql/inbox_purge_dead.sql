-- inbox_purge_dead: removes up to $3 dead letters of consumer $1 discarded more than $2 seconds ago.
-- Concurrency: skips what another cleaner has locked. Index: inbox_dead_state, inbox_dead_pkey.
DELETE FROM posthaste.inbox_dead
WHERE consumer = $1 AND id IN (
    SELECT id
    FROM posthaste.inbox_dead
    WHERE consumer = $1
        AND state = 'discarded'
        AND state_at < clock_timestamp() - make_interval(secs => $2)
    ORDER BY state_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
