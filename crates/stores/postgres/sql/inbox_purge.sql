-- inbox_purge: forgets up to `:limit` ids of consumer `:consumer` that were recorded more than `:window`
-- microseconds ago.
-- Concurrency: skips ids that another purge has locked. Index: inbox_at, inbox_pkey.
DELETE FROM posthaste.inbox
WHERE consumer = :consumer AND id IN (
    SELECT id
    FROM posthaste.inbox
    WHERE consumer = :consumer
        AND at < clock_timestamp() - :window * interval '1 microsecond'
    ORDER BY at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
