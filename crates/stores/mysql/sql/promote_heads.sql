-- promote_heads: plans an attempt for the first message, in route :route, of each key in the JSON array
-- :keys (in hex) that has none planned. A dead one that blocks its key stays first and gets none.
-- Concurrency: in the transaction that changed the keys, with the lease or all leases of the route
-- locked. Index: posthaste_parked_held (its first entry for each key), then the primary key.
UPDATE (
    SELECT DISTINCT (
        SELECT MIN(held.seq)
        FROM posthaste_parked AS held
        WHERE held.route = :route AND held.held_key = UNHEX(touched.hex)
    ) AS seq
    FROM JSON_TABLE(:keys, '$[*]' COLUMNS (hex VARCHAR(2048) PATH '$')) AS touched
) AS head
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = :route AND parked.seq = head.seq
SET parked.next_attempt_at = UTC_TIMESTAMP(6)
WHERE parked.state = 'retrying' AND parked.next_attempt_at IS NULL
