-- hold_followers: takes the planned attempt from every message of route :route, of the keys in the JSON
-- array :keys (in hex), that has an older one of its key before it.
-- DISTINCT makes the inner table one of its own: MySQL changes no table that it is reading.
-- Concurrency: in the transaction that changed the keys. Index: posthaste_parked_planned to find
-- them, posthaste_parked_held to look before.
UPDATE (
    SELECT DISTINCT planned.seq
    FROM JSON_TABLE(:keys, '$[*]' COLUMNS (hex VARCHAR(2048) PATH '$')) AS touched
    STRAIGHT_JOIN posthaste_parked AS planned FORCE INDEX (posthaste_parked_planned)
        ON planned.route = :route AND planned.planned_key = UNHEX(touched.hex)
    WHERE EXISTS (
        SELECT 1
        FROM posthaste_parked AS held
        WHERE held.route = :route
            AND held.held_key = planned.`key`
            AND held.seq < planned.seq)
) AS late
STRAIGHT_JOIN posthaste_parked AS follower FORCE INDEX (PRIMARY)
    ON follower.route = :route AND follower.seq = late.seq
SET follower.next_attempt_at = NULL
