-- status_leases: every lease, its holder unless expired, and what lies ahead of it: how many seqs,
-- and the age of the first message of the shard among the next 1,000 rows.
-- Concurrency: reads. Index: lease_pkey, progress_pkey backwards, outbox_pkey at both ends.
WITH log AS MATERIALIZED (
    SELECT
        coalesce((SELECT min(seq) FROM posthaste.outbox), 1) AS first,
        coalesce((SELECT max(seq) FROM posthaste.outbox), 0) AS last
)
SELECT
    lease.route,
    lease.shard,
    CASE WHEN lease.expires_at > clock_timestamp() THEN lease.relay::text END,
    lease.epoch,
    coalesce(latest.seq, 0),
    CASE
        WHEN lease.expires_at > clock_timestamp()
            THEN date_part('epoch', lease.expires_at - clock_timestamp())
    END,
    greatest(log.last - greatest(coalesce(latest.seq, 0), log.first - 1), 0),
    (
        SELECT date_part('epoch', greatest(clock_timestamp() - min(next.created_at), interval '0'))
        FROM (
            SELECT seq, topic, key, created_at
            FROM posthaste.outbox
            WHERE seq > coalesce(latest.seq, 0)
            ORDER BY seq
            LIMIT 1000
        ) AS next
        WHERE next.topic LIKE ANY (route.likes)
            AND (route.shards = 1 OR lease.shard = CASE
                WHEN next.key IS NULL THEN next.seq % 65536
                ELSE ('x' || left(md5(next.key), 4))::bit(16)::int
            END % route.shards)
    )
FROM posthaste.lease
JOIN posthaste.route ON route.name = lease.route
CROSS JOIN log
LEFT JOIN LATERAL (
    SELECT progress.seq
    FROM posthaste.progress
    WHERE progress.route = lease.route AND progress.shard = lease.shard
    ORDER BY progress.epoch DESC, progress.n DESC
    LIMIT 1
) AS latest ON true
ORDER BY lease.route, lease.shard
