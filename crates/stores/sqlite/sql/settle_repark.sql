-- settle_repark: what was learned about a parked message; the first error stays, and so does the
-- latest where there is no newer one.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
UPDATE posthaste_parked
SET
    state = ?3,
    blocks = ?4,
    attempts = ?5,
    unknowns = ?6,
    first_error_class = coalesce(first_error_class, ?7),
    first_error = coalesce(first_error, ?8),
    last_error_class = coalesce(?7, last_error_class),
    last_error = coalesce(?8, last_error),
    state_at = CASE WHEN state = ?3 THEN state_at ELSE ?9 END,
    next_attempt_at = ?10
WHERE route = ?1 AND seq = ?2 AND state = 'retrying'
