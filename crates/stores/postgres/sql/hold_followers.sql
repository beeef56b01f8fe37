-- hold_followers: parked messages behind another of their key have no attempt of their own.
-- Concurrency: under the lease's fence. Index: parked_pkey, parked_key.
UPDATE posthaste.parked AS p
SET next_attempt_at = NULL
WHERE p.route = $1
    AND p.seq = ANY ($2)
    AND p.next_attempt_at IS NOT NULL
    AND EXISTS (
        SELECT
        FROM posthaste.parked AS before
        WHERE before.route = p.route
            AND before.key = p.key
            AND before.seq < p.seq
            AND (before.state = 'retrying' OR before.blocks)
    )
