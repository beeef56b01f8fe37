-- adopt_unread: the lowest row that a position recorded elsewhere does not cover, if any up to its
-- end: `:seqs` and `:snapshots` of its steps, `:end` its highest seq.
-- Concurrency: under adopt_lock. Index: none, reads the log once.
SELECT min(o.seq)
FROM posthaste.outbox AS o
WHERE o.seq <= :end
    AND NOT pg_visible_in_snapshot(
        o.xid,
        (
            SELECT step.snap
            FROM unnest(:seqs::int8[], :snapshots::text[]::pg_snapshot[]) AS step (seq, snap)
            WHERE o.seq <= step.seq
            ORDER BY step.seq
            LIMIT 1
        )
    )
