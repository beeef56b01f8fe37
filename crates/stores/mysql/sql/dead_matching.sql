-- dead_matching: which messages in state ? match the filter (as for dead), with their keys.
-- Concurrency: reads; then again with the leases of their routes locked, so that nothing of it is being
-- tried or changed.
-- Index: posthaste_parked_state, or posthaste_parked_id.
SELECT
    route,
    seq,
    `key`
FROM posthaste_parked
WHERE state = ?
    AND (? IS NULL OR route = ?)
    AND (
        ? IS NULL
        OR id IN (
            SELECT wanted.id
            FROM JSON_TABLE(
                ?,
                '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$')
            ) AS wanted))
    AND (? IS NULL OR topic = ?)
    AND (? IS NULL OR last_error_class = ?)
