-- promote_heads: the first retrying message of each key ($1 routes, $2 keys) is tried next, unless
-- a dead letter before it blocks the key.
-- Concurrency: under the lease's fence, or with the route's leases locked: a message parked behind
-- one that goes away at the same moment would otherwise wait for ever. Index: parked_key.
UPDATE posthaste.parked AS p
SET next_attempt_at = clock_timestamp()
FROM unnest($1::text[], $2::text[]) AS touched (route, key)
CROSS JOIN LATERAL (
    SELECT held.seq, held.state
    FROM posthaste.parked AS held
    WHERE held.route = touched.route
        AND held.key = touched.key
        AND (held.state = 'retrying' OR held.blocks)
    ORDER BY held.seq
    LIMIT 1
) AS head
WHERE p.route = touched.route
    AND p.seq = head.seq
    AND head.state = 'retrying'
    AND p.next_attempt_at IS NULL
