-- read_evidence: the epoch of the lease of route :route, shard :shard, and what evidence of the log's
-- history is held against: the end of the log, the shard's latest journal entry with its seq, and the
-- message at seq :witness. Lineage and snapshot are empty: a server does not say which line of history it
-- is on, and the log is in the order of commits.
-- Concurrency: reads, waits for nobody. Asked after the log was read: where the epoch is still the
-- holder's, nobody else had parked or removed anything by then. Index: primary keys.
SELECT
    (SELECT epoch FROM posthaste_lease WHERE route = :route AND shard = :shard),
    (SELECT seq FROM posthaste_sequencer WHERE one = 1),
    (
        SELECT epoch
        FROM posthaste_progress
        WHERE route = :route AND shard = :shard
        ORDER BY epoch DESC, n DESC
        LIMIT 1
    ),
    (
        SELECT n
        FROM posthaste_progress
        WHERE route = :route AND shard = :shard
        ORDER BY epoch DESC, n DESC
        LIMIT 1
    ),
    (
        SELECT seq
        FROM posthaste_progress
        WHERE route = :route AND shard = :shard
        ORDER BY epoch DESC, n DESC
        LIMIT 1
    ),
    (SELECT id FROM posthaste_log WHERE seq = :witness),
    '',
    ''
