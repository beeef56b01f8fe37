-- read_evidence: the epoch of a shard's lease, and what evidence of the log's history is held against: the
-- highest seq handed out, the shard's latest journal entry and its seq, the message at seq :witness. The file
-- at the path, which is the lineage, is known to the program.
-- Concurrency: reads a snapshot, waits for nobody. Asked after the log was read: where the epoch is still
-- the holder's, nobody else had parked or removed anything by then. Index: primary keys.
SELECT
    (SELECT epoch FROM posthaste_lease WHERE route = :route AND shard = :shard),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'posthaste_outbox'), 0),
    latest.epoch,
    latest.n,
    coalesce(latest.seq, 0),
    (SELECT id FROM posthaste_outbox WHERE seq = :witness),
    '',
    ''
FROM (SELECT 1)
LEFT JOIN (
    SELECT epoch, n, seq
    FROM posthaste_progress
    WHERE route = :route AND shard = :shard
    ORDER BY epoch DESC, n DESC
    LIMIT 1
) AS latest
