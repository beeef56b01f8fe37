-- settle_unblocked: the keys of the JSON array :keys (in hex) that no parked message holds back in route
-- :route.
-- Concurrency: in the transaction that changed them. Index: posthaste_parked_held.
SELECT UNHEX(touched.hex)
FROM JSON_TABLE(:keys, '$[*]' COLUMNS (hex VARCHAR(2048) PATH '$')) AS touched
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_parked AS held
    WHERE held.route = :route AND held.held_key = UNHEX(touched.hex))
