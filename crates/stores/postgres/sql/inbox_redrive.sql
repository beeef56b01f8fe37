-- inbox_redrive: gives matching dead letters to their consumers again. Filter as for inbox_letters;
-- $5 by whom.
-- Concurrency: row locks. Index: inbox_dead_pkey, or inbox_dead_state.
UPDATE posthaste.inbox_dead
SET
    state = 'retrying',
    attempts = 0,
    redriven = redriven + 1,
    state_at = clock_timestamp(),
    acted_by = $5,
    acted_why = 'redrive'
WHERE state = 'dead'
    AND ($1::text IS NULL OR consumer = $1)
    AND ($2::uuid[] IS NULL OR id = ANY ($2))
    AND ($3::text IS NULL OR topic = $3)
    AND ($4::text IS NULL OR last_error_class = $4)
