-- settle_repark: writes what trying parked messages again has shown. Every parameter is an array with an
-- item for each message: `:route :seq :state :blocks :attempts :unknowns`, `:class` and `:detail` of the
-- error, and `:delay` to the next attempt in microseconds.
-- Concurrency: under the lease's fence. Changes retrying messages only: a person's decision stands.
-- Index: parked_pkey.
UPDATE posthaste.parked AS p
SET
    state = r.state,
    blocks = r.blocks,
    attempts = r.attempts,
    unknowns = r.unknowns,
    first_error_class = coalesce(p.first_error_class, r.class),
    first_error = coalesce(p.first_error, r.detail),
    last_error_class = coalesce(r.class, p.last_error_class),
    last_error = coalesce(r.detail, p.last_error),
    state_at = CASE WHEN p.state = r.state THEN p.state_at ELSE clock_timestamp() END,
    next_attempt_at = CASE
        WHEN r.state = 'retrying' THEN clock_timestamp() + r.delay * interval '1 microsecond'
    END
FROM unnest(
    :route::text[], :seq::int8[], :state::text[], :blocks::bool[], :attempts::int8[],
    :unknowns::int8[], :class::text[], :detail::text[], :delay::int8[]
) AS r (route, seq, state, blocks, attempts, unknowns, class, detail, delay)
WHERE p.route = r.route AND p.seq = r.seq AND p.state = 'retrying'
