-- purge_progress: removes `:entries` (pairs of epoch and n, a JSON array) from the journal of shard
-- `:shard` of route `:route`.
-- Concurrency: removes only entries that nobody reads; the latest entry is never among them.
-- Index: progress_pkey. Looked up one by one and by ctid, not by join: nothing is known about a table that
-- has just grown.
DELETE FROM posthaste.progress
WHERE ctid = ANY (ARRAY(
    SELECT entry.ctid
    FROM json_array_elements(:entries::json) AS given (pair)
    CROSS JOIN LATERAL (
        SELECT progress.ctid
        FROM posthaste.progress
        WHERE progress.route = :route
            AND progress.shard = :shard
            AND progress.epoch = (given.pair ->> 0)::int8
            AND progress.n = (given.pair ->> 1)::int8
        LIMIT 1
    ) AS entry
))
