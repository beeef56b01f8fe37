-- settle_unblocked: which keys of the JSON array :keys nothing holds back.
-- Concurrency: in the transaction that changed them. Index: posthaste_parked_key.
SELECT touched.value
FROM json_each(:keys) AS touched
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste_parked AS held
    WHERE held.route = :route
        AND held.key = touched.value
        AND held.key IS NOT NULL
        AND (held.state = 'retrying' OR held.blocks = 1))
