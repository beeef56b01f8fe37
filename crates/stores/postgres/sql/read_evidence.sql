-- read_evidence: the facts that evidence of the log's history is compared with, for shard `:shard` of route
-- `:route`: the lease's epoch, the highest seq handed out, the latest journal entry (epoch, n, seq), the id
-- of the message at seq `:witness`, the server's lineage, and the present snapshot.
-- Concurrency: reads. Index: lease_pkey, progress_pkey backwards, outbox_pkey.
SELECT
    (SELECT epoch FROM posthaste.lease WHERE route = :route AND shard = :shard),
    posthaste.seq_last(),
    latest.epoch,
    latest.n,
    latest.seq,
    (SELECT id FROM posthaste.outbox WHERE seq = :witness),
    posthaste.lineage(),
    pg_current_snapshot()::text
FROM (SELECT) AS one
LEFT JOIN LATERAL (
    SELECT
        epoch,
        n,
        seq
    FROM posthaste.progress
    WHERE route = :route AND shard = :shard
    ORDER BY epoch DESC, n DESC
    LIMIT 1
) AS latest ON true
