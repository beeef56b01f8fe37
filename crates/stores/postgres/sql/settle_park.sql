-- settle_park: parks messages; one that is parked already stays as it is. Every parameter is an array with
-- an item for each message: `:route :seq :bucket :id :topic :key :type :payload :headers :content_type`,
-- `:age` and `:delay` to the next attempt in microseconds, `:state :blocks :attempts :unknowns`, and
-- `:class` and `:detail` of the error.
-- Concurrency: under the lease's fence, so nobody else parks for this shard.
-- Index: parked_pkey; outbox_pkey for the exact time of creation, where the log still has the row.
INSERT INTO posthaste.parked (
    route, seq, bucket, id, topic, key, type, payload, headers, content_type, created_at,
    state, blocks, attempts, unknowns,
    first_error_class, first_error, last_error_class, last_error, next_attempt_at
)
SELECT
    p.route, p.seq, p.bucket, p.id, p.topic, p.key, p.type, p.payload, p.headers::json,
    p.content_type,
    coalesce(
        (SELECT o.created_at FROM posthaste.outbox AS o WHERE o.seq = p.seq),
        clock_timestamp() - p.age * interval '1 microsecond'
    ),
    p.state, p.blocks, p.attempts, p.unknowns,
    p.class, p.detail, p.class, p.detail,
    CASE
        WHEN p.state = 'retrying' THEN clock_timestamp() + p.delay * interval '1 microsecond'
    END
FROM unnest(
    :route::text[], :seq::int8[], :bucket::int8[], :id::uuid[], :topic::text[], :key::text[],
    :type::text[], :payload::bytea[], :headers::text[], :content_type::text[], :age::int8[],
    :state::text[], :blocks::bool[], :attempts::int8[], :unknowns::int8[],
    :class::text[], :detail::text[], :delay::int8[]
) AS p (
    route, seq, bucket, id, topic, key,
    type, payload, headers, content_type, age,
    state, blocks, attempts, unknowns,
    class, detail, delay
)
ON CONFLICT (route, seq) DO NOTHING
