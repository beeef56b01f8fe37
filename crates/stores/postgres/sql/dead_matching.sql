-- dead_matching: route, seq and key of parked messages in state `:state`, from seq `:from` on, that match
-- `:route`, `:ids`, `:topic` and `:class` of the latest error, each NULL for any; the first `:limit` of
-- them.
-- Concurrency: reads. Index: parked_id; parked_dead, parked_dead_all or parked_retrying.
SELECT
    route,
    seq,
    key
FROM posthaste.parked
WHERE state = :state
    AND seq >= :from
    AND (:route::text IS NULL OR route = :route)
    AND (:ids::uuid[] IS NULL OR id = ANY (:ids))
    AND (:topic::text IS NULL OR topic = :topic)
    AND (:class::text IS NULL OR last_error_class = :class)
ORDER BY seq, route
LIMIT :limit
