-- purge_progress: thins the journal of route $2, shard $3: looks at $6 entries, from (epoch $4, n $5) on,
-- that one included. Of a shard stay: the latest, the one that retention ($1 seconds) goes by, and
-- after that the last of every minute, which is what retention will go by later. The last entry that
-- it looks at stays, too: what follows it is not known. Returns how many it looked at, the last of
-- them, and how many it removed.
-- Concurrency: removes only what nobody reads; the latest entry is never touched.
-- Index: progress_pkey, in order.
-- By ctid, not by join: nothing is known about a table that has just grown.
WITH looked AS MATERIALIZED (
    SELECT
        entry.ctid, entry.epoch, entry.n, entry.at,
        lead(entry.at) OVER (ORDER BY entry.epoch, entry.n) AS next_at
    FROM (
        SELECT ctid, epoch, n, at
        FROM posthaste.progress
        WHERE route = $2 AND shard = $3 AND (epoch, n) >= ($4, $5)
        ORDER BY epoch, n
        LIMIT $6
    ) AS entry
),
removed AS (
    DELETE FROM posthaste.progress
    WHERE ctid = ANY (ARRAY(
        SELECT looked.ctid
        FROM looked
        WHERE looked.next_at <= clock_timestamp() - make_interval(secs => $1)
            OR (
                looked.at > clock_timestamp() - make_interval(secs => $1)
                AND date_trunc('minute', looked.at) = date_trunc('minute', looked.next_at)
            )
    ))
    RETURNING n
)
SELECT
    (SELECT count(*) FROM looked),
    (SELECT ARRAY[epoch, n] FROM looked ORDER BY epoch DESC, n DESC LIMIT 1),
    (SELECT count(*) FROM removed)
