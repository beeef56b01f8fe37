-- park: puts messages of a route aside; one that is there already stays as it is.
-- Concurrency: under the lease's fence, so nobody else parks for this shard.
-- Index: parked_pkey; outbox_pkey for the exact time of creation, where the log still has the row.
INSERT INTO posthaste.parked (
    route, seq, bucket, id, topic, key, type, payload, headers, content_type, created_at,
    state, blocks, attempts, unknowns,
    first_error_class, first_error, last_error_class, last_error, next_attempt_at
)
SELECT
    $1, p.seq, p.bucket, p.id, p.topic, p.key, p.type, p.payload, p.headers::json, p.content_type,
    coalesce(
        (SELECT o.created_at FROM posthaste.outbox AS o WHERE o.seq = p.seq),
        clock_timestamp() - make_interval(secs => p.age)
    ),
    p.state, p.blocks, p.attempts, p.unknowns,
    p.class, p.detail, p.class, p.detail,
    CASE WHEN p.state = 'retrying' THEN clock_timestamp() + make_interval(secs => p.delay) END
FROM unnest(
    $2::int8[], $3::int[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::bytea[],
    $9::text[], $10::text[], $11::float8[], $12::text[], $13::bool[], $14::int[], $15::int[],
    $16::text[], $17::text[], $18::float8[]
) AS p (
    seq, bucket, id, topic, key, type, payload,
    headers, content_type, age, state, blocks, attempts, unknowns,
    class, detail, delay
)
ON CONFLICT (route, seq) DO NOTHING
