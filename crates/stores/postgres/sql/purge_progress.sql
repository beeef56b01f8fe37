-- purge_progress: thins the journal by up to $2 entries. Of each shard stay: the latest, the one
-- that retention ($1 seconds) goes by, and after that the last of every minute, which is what
-- retention will go by later.
-- Concurrency: removes only what nobody reads; the latest entry is never touched.
-- Index: progress_pkey, in order.
DELETE FROM posthaste.progress
WHERE (route, shard, epoch, n) IN (
    SELECT entry.route, entry.shard, entry.epoch, entry.n
    FROM (
        SELECT
            route, shard, epoch, n, at,
            lead(at) OVER (PARTITION BY route, shard ORDER BY epoch, n) AS next_at
        FROM posthaste.progress
    ) AS entry
    WHERE entry.next_at <= clock_timestamp() - make_interval(secs => $1)
        OR (
            entry.at > clock_timestamp() - make_interval(secs => $1)
            AND date_trunc('minute', entry.at) = date_trunc('minute', entry.next_at)
        )
    LIMIT $2
)
