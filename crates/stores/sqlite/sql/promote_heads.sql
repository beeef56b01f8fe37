-- promote_heads: plans an attempt, at time ?3, for the first message of each key in the JSON array
-- ?2 that has none. A dead one that blocks its key stays first and gets none.
-- Concurrency: in the transaction that changed the keys. Index: posthaste_parked_key (its first
-- entry for each key), then the primary key.
UPDATE posthaste_parked
SET next_attempt_at = ?3
WHERE route = ?1
    AND seq IN (
        SELECT (
            SELECT min(held.seq)
            FROM posthaste_parked AS held
            WHERE held.route = ?1
                AND held.key = touched.value
                AND held.key IS NOT NULL
                AND (held.state = 'retrying' OR held.blocks = 1))
        FROM json_each(?2) AS touched)
    AND state = 'retrying'
    AND next_attempt_at IS NULL
