-- settle_repark: what was learned about a parked message; the first error stays, and so does the
-- latest where there is no newer one.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
UPDATE posthaste_parked
SET
    state = :state,
    blocks = :blocks,
    attempts = :attempts,
    unknowns = :unknowns,
    first_error_class = coalesce(first_error_class, :class),
    first_error = coalesce(first_error, :detail),
    last_error_class = coalesce(:class, last_error_class),
    last_error = coalesce(:detail, last_error),
    state_at = CASE WHEN state = :state THEN state_at ELSE unixepoch('subsec') END,
    next_attempt_at = unixepoch('subsec') + :delay / 1000000.0
WHERE route = :route AND seq = :seq AND state = 'retrying'
