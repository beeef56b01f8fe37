-- purge_progress: thins the journal. Stays: for each shard the latest entry, the one that purge_floor
-- finds ? microseconds ago (twice), and after that one the latest of each minute. ? rows at most.
-- Concurrency: removes only what nobody reads. Index: primary key (scanned; it is kept small by
-- this statement).
DELETE progress
FROM (
    SELECT
        route,
        shard,
        epoch,
        n
    FROM (
        SELECT
            route,
            shard,
            epoch,
            n,
            at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND AS is_old,
            ROW_NUMBER() OVER (
                PARTITION BY route, shard
                ORDER BY epoch DESC, n DESC) AS place,
            ROW_NUMBER() OVER (
                PARTITION BY route, shard, at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
                ORDER BY epoch DESC, n DESC) AS place_in_age,
            ROW_NUMBER() OVER (
                PARTITION BY route, shard, TIMESTAMPDIFF(MINUTE, '1970-01-01 00:00:00', at)
                ORDER BY epoch DESC, n DESC) AS place_in_minute
        FROM posthaste_progress
    ) AS ranked
    WHERE place > 1 AND IF(is_old, place_in_age, place_in_minute) > 1
    LIMIT ?
) AS done
STRAIGHT_JOIN posthaste_progress AS progress FORCE INDEX (PRIMARY)
    ON progress.route = done.route
        AND progress.shard = done.shard
        AND progress.epoch = done.epoch
        AND progress.n = done.n
