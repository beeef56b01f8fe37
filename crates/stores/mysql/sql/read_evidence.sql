-- read_evidence: the epoch of a shard's lease (route ?, shard ?), and what evidence of the log's history is
-- held against: the end of the log, the shard's latest journal entry (route ?, shard ?, twice), the
-- message at ?, and the seq of that entry (route ?, shard ?).
-- Concurrency: reads, waits for nobody. Asked after the log was read: where the epoch is still the
-- holder's, nobody else had parked or removed anything by then. Index: primary keys.
SELECT
    (SELECT epoch FROM posthaste_lease WHERE route = ? AND shard = ?),
    (SELECT seq FROM posthaste_sequencer WHERE one = 1),
    (
        SELECT epoch
        FROM posthaste_progress
        WHERE route = ? AND shard = ?
        ORDER BY epoch DESC, n DESC
        LIMIT 1
    ),
    (
        SELECT n
        FROM posthaste_progress
        WHERE route = ? AND shard = ?
        ORDER BY epoch DESC, n DESC
        LIMIT 1
    ),
    (SELECT id FROM posthaste_log WHERE seq = ?),
    (
        SELECT seq
        FROM posthaste_progress
        WHERE route = ? AND shard = ?
        ORDER BY epoch DESC, n DESC
        LIMIT 1
    )
