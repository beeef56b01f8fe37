-- inbox_purge: forgets up to $3 ids of consumer $1 that were recorded more than $2 seconds ago.
-- Concurrency: skips what another cleaner has locked. Index: inbox_at, inbox_pkey.
DELETE FROM posthaste.inbox
WHERE consumer = $1 AND id IN (
    SELECT id
    FROM posthaste.inbox
    WHERE consumer = $1 AND at < clock_timestamp() - make_interval(secs => $2)
    ORDER BY at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
