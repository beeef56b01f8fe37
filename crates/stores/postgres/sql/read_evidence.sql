-- read_evidence: the epoch of a shard's lease, and what evidence of the log's history is held against:
-- the server's lineage, the highest seq handed out, the shard's latest journal entry and its seq, the
-- message at $3, and the present snapshot.
-- Concurrency: reads. Index: lease_pkey, progress_pkey backwards, outbox_pkey.
SELECT
    (SELECT epoch FROM posthaste.lease WHERE route = $1 AND shard = $2),
    ARRAY[
        posthaste.lineage(),
        posthaste.seq_last()::text,
        (
            SELECT epoch || '.' || n || '.' || seq
            FROM posthaste.progress
            WHERE route = $1 AND shard = $2
            ORDER BY epoch DESC, n DESC
            LIMIT 1
        ),
        (SELECT id::text FROM posthaste.outbox WHERE seq = $3)
    ],
    pg_current_snapshot()::text
