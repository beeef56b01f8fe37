-- settle_unblocked: those of the keys `:keys` that no parked message of route `:route` holds back.
-- Concurrency: reads, in the transaction that changed the keys. Index: parked_key.
SELECT touched.key
FROM unnest(:keys::text[]) AS touched (key)
WHERE NOT EXISTS (
    SELECT
    FROM posthaste.parked AS held
    WHERE held.route = :route
        AND held.key = touched.key
        AND (held.state = 'retrying' OR held.blocks)
)
