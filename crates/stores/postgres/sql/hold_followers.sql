-- hold_followers: takes the planned attempt from parked messages of route `:route` that have an earlier one
-- of their key before them. `:seqs` are the messages of the keys `:keys` that were changed; beside them
-- only the first other message of a key can have an attempt planned.
-- Concurrency: under the lease's fence, or with the route's leases locked.
-- Index: parked_pkey, parked_key.
UPDATE posthaste.parked AS p
SET next_attempt_at = NULL
WHERE p.route = :route
    AND p.seq = ANY (:seqs::int8[] || ARRAY(
        SELECT other.seq
        FROM unnest(:keys::text[]) AS touched (key)
        CROSS JOIN LATERAL (
            SELECT held.seq
            FROM posthaste.parked AS held
            WHERE held.route = :route
                AND held.key = touched.key
                AND (held.state = 'retrying' OR held.blocks)
                AND held.seq <> ALL (:seqs::int8[])
            ORDER BY held.seq
            LIMIT 1
        ) AS other
    ))
    AND p.next_attempt_at IS NOT NULL
    AND EXISTS (
        SELECT
        FROM posthaste.parked AS before
        WHERE before.route = p.route
            AND before.key = p.key
            AND before.seq < p.seq
            AND (before.state = 'retrying' OR before.blocks)
    )
