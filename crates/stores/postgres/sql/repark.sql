-- repark: what was learned about parked messages by trying them again; their keys come back.
-- Concurrency: under the lease's fence. Only what is retrying: a person's decision stands.
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
    next_attempt_at =
        CASE WHEN r.state = 'retrying' THEN clock_timestamp() + make_interval(secs => r.delay) END
FROM unnest(
    $2::int8[], $3::text[], $4::bool[], $5::int[], $6::int[], $7::text[], $8::text[], $9::float8[]
) AS r (seq, state, blocks, attempts, unknowns, class, detail, delay)
WHERE p.route = $1 AND p.seq = r.seq AND p.state = 'retrying'
RETURNING p.key
