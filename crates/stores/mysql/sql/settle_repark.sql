-- settle_repark: what was learned about the parked message :seq of route :route: :state, :blocks,
-- :attempts, :unknowns, the error's :class and :detail, the next attempt in :delay. The first error stays,
-- and so does the latest where there is no newer one. Only a message that is retrying: a person's decision
-- stands.
-- MySQL assigns from left to right, so what looks at the old state comes before the new one.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
UPDATE posthaste_parked
SET
    state_at = IF(state = :state, state_at, UTC_TIMESTAMP(6)),
    state = :state,
    blocks = :blocks,
    attempts = :attempts,
    unknowns = :unknowns,
    first_error_class = COALESCE(first_error_class, :class),
    first_error = COALESCE(first_error, :detail),
    last_error_class = COALESCE(:class, last_error_class),
    last_error = COALESCE(:detail, last_error),
    next_attempt_at = UTC_TIMESTAMP(6) + INTERVAL :delay MICROSECOND
WHERE route = :route AND seq = :seq AND state = 'retrying'
