-- dead_matching: which messages in state :state match the filter (as for dead), from seq :from on, with
-- their keys; the first :limit of them.
-- Concurrency: in the transaction that acts on them. Index: posthaste_parked_state.
SELECT
    route,
    seq,
    key
FROM posthaste_parked
WHERE state = :state
    AND seq >= :from
    AND (:route IS NULL OR route = :route)
    AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND (:topic IS NULL OR topic = :topic)
    AND (:class IS NULL OR last_error_class = :class)
ORDER BY seq, route
LIMIT :limit
