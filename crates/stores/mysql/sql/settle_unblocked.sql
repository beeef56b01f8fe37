-- settle_unblocked: which keys of the JSON array ?, in hex, nothing holds back in route ?.
-- Concurrency: in the transaction that changed them. Index: posthaste_parked_held.
SELECT UNHEX(touched.hex)
FROM JSON_TABLE(?, '$[*]' COLUMNS (hex VARCHAR(2048) PATH '$')) AS touched
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_parked AS held
    WHERE held.route = ? AND held.held_key = UNHEX(touched.hex))
