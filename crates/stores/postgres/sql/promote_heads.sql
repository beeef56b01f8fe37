-- promote_heads: plans an attempt for the first message of each of the keys `:keys` of route `:route`,
-- unless it is a dead letter that blocks the key.
-- Concurrency: under the lease's fence, or with the route's leases locked: a message parked behind
-- one that goes away at the same moment would otherwise wait for ever. Index: parked_key.
-- By ctid, not by join: nothing is known about the table when much has just been parked.
UPDATE posthaste.parked
SET next_attempt_at = clock_timestamp()
WHERE ctid = ANY (ARRAY(
    SELECT head.ctid
    FROM unnest(:keys::text[]) AS touched (key)
    CROSS JOIN LATERAL (
        SELECT held.ctid, held.state, held.next_attempt_at
        FROM posthaste.parked AS held
        WHERE held.route = :route
            AND held.key = touched.key
            AND (held.state = 'retrying' OR held.blocks)
        ORDER BY held.seq
        LIMIT 1
    ) AS head
    WHERE head.state = 'retrying' AND head.next_attempt_at IS NULL
))
