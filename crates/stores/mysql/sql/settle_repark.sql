-- settle_repark: what was learned about a parked message; the first error stays, and so does the
-- latest where there is no newer one. Only what is retrying: a person's decision stands.
-- MySQL assigns from left to right, so what looks at the old state comes before the new one.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
UPDATE posthaste_parked
SET
    state_at = IF(state = ?, state_at, UTC_TIMESTAMP(6)),
    state = ?,
    blocks = ?,
    attempts = ?,
    unknowns = ?,
    first_error_class = COALESCE(first_error_class, ?),
    first_error = COALESCE(first_error, ?),
    last_error_class = COALESCE(?, last_error_class),
    last_error = COALESCE(?, last_error),
    next_attempt_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE route = ? AND seq = ? AND state = 'retrying'
