-- purge_discarded: removes up to $2 discarded dead letters that are older than $1 seconds.
-- Concurrency: skips what another cleaner has locked. Index: parked_discarded.
DELETE FROM posthaste.parked
WHERE (route, seq) IN (
    SELECT route, seq
    FROM posthaste.parked
    WHERE state = 'discarded' AND state_at <= clock_timestamp() - make_interval(secs => $1)
    ORDER BY state_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
