-- promote_waiting: of every key of a route, the first message is tried next, unless it is a dead
-- letter that blocks the key, and those behind it have no attempt of their own. As hold_followers and
-- promote_heads, but for all keys at once: what is not so is turned around.
-- By array, not by join: nothing is known about the table when much has just been parked.
-- Concurrency: with route and leases locked. Index: parked_key, in order; parked_pkey.
UPDATE posthaste.parked
SET next_attempt_at = CASE WHEN next_attempt_at IS NULL THEN clock_timestamp() END
WHERE route = $1
    AND seq = ANY (ARRAY(
        SELECT held.seq
        FROM (
            SELECT
                seq, state, next_attempt_at,
                row_number() OVER (PARTITION BY key ORDER BY seq) = 1 AS is_first
            FROM posthaste.parked
            WHERE route = $1 AND key IS NOT NULL AND (state = 'retrying' OR blocks)
        ) AS held
        WHERE held.state = 'retrying' AND held.is_first = (held.next_attempt_at IS NULL)
    ))
