-- inbox_discard: gives dead letters of consumers up, by whom `:by` and why `:why` says. Filter as for
-- inbox_letters.
-- Concurrency: row locks. Index: inbox_dead_pkey, or inbox_dead_state.
UPDATE posthaste.inbox_dead
SET
    state = 'discarded',
    state_at = clock_timestamp(),
    acted_by = :by,
    acted_why = :why
WHERE state = 'dead'
    AND (:route::text IS NULL OR consumer = :route)
    AND (:ids::uuid[] IS NULL OR id = ANY (:ids))
    AND (:topic::text IS NULL OR topic = :topic)
    AND (:class::text IS NULL OR last_error_class = :class)
