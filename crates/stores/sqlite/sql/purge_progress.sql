-- purge_progress: thins the journal, up to ?2 rows. Stays: for each shard the latest entry, the one
-- that purge_floor finds ?1 seconds ago, and after that one the latest of each minute.
-- Concurrency: in the transaction of purge_messages. Index: primary key (scanned; it is kept small
-- by this statement).
WITH ranked AS (
    SELECT
        route,
        shard,
        epoch,
        n,
        row_number() OVER latest_first AS rank,
        row_number() OVER (
            PARTITION BY route, shard, at <= unixepoch('subsec') - ?1
            ORDER BY epoch DESC, n DESC) AS rank_in_age,
        row_number() OVER (
            PARTITION BY route, shard, CAST(at / 60 AS INTEGER)
            ORDER BY epoch DESC, n DESC) AS rank_in_minute,
        at <= unixepoch('subsec') - ?1 AS is_old
    FROM posthaste_progress
    WINDOW latest_first AS (PARTITION BY route, shard ORDER BY epoch DESC, n DESC)
)
DELETE FROM posthaste_progress
WHERE (route, shard, epoch, n) IN (
    SELECT
        route,
        shard,
        epoch,
        n
    FROM ranked
    WHERE rank > 1
        AND CASE WHEN is_old THEN rank_in_age > 1 ELSE rank_in_minute > 1 END
    LIMIT ?2)
