-- promote_heads: plans an attempt for the first message of each key in the JSON array :keys that has none. A dead one that blocks its key stays first and gets none.
-- Concurrency: in the transaction that changed the keys. Index: posthaste_parked_key (its first
-- entry for each key), then the primary key.
UPDATE posthaste_parked
SET next_attempt_at = unixepoch('subsec')
WHERE route = :route
    AND seq IN (
        SELECT (
            SELECT min(held.seq)
            FROM posthaste_parked AS held
            WHERE held.route = :route
                AND held.key = touched.value
                AND held.key IS NOT NULL
                AND (held.state = 'retrying' OR held.blocks = 1))
        FROM json_each(:keys) AS touched)
    AND state = 'retrying'
    AND next_attempt_at IS NULL
