-- dead_matching: route, seq and key of the next :limit messages from seq :from on that are in state
-- :state and match the filter (as for dead).
-- Concurrency: reads; then again with the leases of their routes locked, so that none of the messages is
-- being tried or changed.
-- Index: posthaste_parked_dead, or posthaste_parked_id.
SELECT
    route,
    seq,
    `key`
FROM posthaste_parked
WHERE state = :state
    AND seq >= :from
    AND (:route IS NULL OR route = :route)
    AND (
        :ids IS NULL
        OR id IN (
            SELECT wanted.id
            FROM JSON_TABLE(
                :ids,
                '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$')
            ) AS wanted))
    AND (:topic IS NULL OR topic = :topic)
    AND (:class IS NULL OR last_error_class = :class)
ORDER BY seq, route
LIMIT :limit
