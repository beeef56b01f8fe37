-- read_evidence: the epoch of a shard's lease (route ?1, shard ?2), and what evidence of the log's history
-- is held against: the highest seq handed out, the shard's latest journal entry, the message at ?3, and
-- the seq of that entry.
-- Concurrency: reads a snapshot, waits for nobody. Asked after the log was read: where the epoch is still
-- the holder's, nobody else had parked or removed anything by then. Index: primary keys.
SELECT
    (SELECT epoch FROM posthaste_lease WHERE route = ?1 AND shard = ?2),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'posthaste_outbox'), 0),
    latest.epoch,
    latest.n,
    (SELECT id FROM posthaste_outbox WHERE seq = ?3),
    coalesce(latest.seq, 0)
FROM (SELECT 1)
LEFT JOIN (
    SELECT epoch, n, seq
    FROM posthaste_progress
    WHERE route = ?1 AND shard = ?2
    ORDER BY epoch DESC, n DESC
    LIMIT 1
) AS latest
