-- inbox_redrive: gives dead letters to their consumers again, by whom `:by` says. Filter as for
-- inbox_letters.
-- Concurrency: row locks. Index: inbox_dead_pkey, or inbox_dead_state.
UPDATE posthaste.inbox_dead
SET
    state = 'retrying',
    attempts = 0,
    redriven = redriven + 1,
    state_at = clock_timestamp(),
    acted_by = :by,
    acted_why = 'redrive'
WHERE state = 'dead'
    AND (:route::text IS NULL OR consumer = :route)
    AND (:ids::uuid[] IS NULL OR id = ANY (:ids))
    AND (:topic::text IS NULL OR topic = :topic)
    AND (:class::text IS NULL OR last_error_class = :class)
