-- adopt_unread: the lowest row that a position recorded elsewhere does not cover, if any up to its
-- end. $1 seqs and $2 snapshots of its steps, $3 its highest seq.
-- Concurrency: under adopt_lock. Index: none, reads the log once.
SELECT min(o.seq)
FROM posthaste.outbox AS o
WHERE o.seq <= $3
    AND NOT pg_visible_in_snapshot(
        o.xid,
        (
            SELECT step.snap
            FROM unnest($1::int8[], $2::text[]::pg_snapshot[]) AS step (seq, snap)
            WHERE o.seq <= step.seq
            ORDER BY step.seq
            LIMIT 1
        )
    )
