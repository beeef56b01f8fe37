-- unblocked_keys: those of the keys that nothing parked holds back.
-- Concurrency: reads. Index: parked_key.
SELECT touched.key
FROM unnest($2::text[]) AS touched (key)
WHERE NOT EXISTS (
    SELECT
    FROM posthaste.parked AS held
    WHERE held.route = $1
        AND held.key = touched.key
        AND (held.state = 'retrying' OR held.blocks)
)
