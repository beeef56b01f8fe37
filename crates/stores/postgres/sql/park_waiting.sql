-- park_waiting: parks rows of the log for route `:route`: `:rows` are pairs of seq and bucket, a JSON
-- array. A message that is parked already stays as it is. promote_heads plans the attempts of those with
-- a key.
-- Concurrency: with route and leases locked, so nobody else parks for the route. Index: outbox_pkey.
INSERT INTO posthaste.parked (
    route, seq, bucket, id, topic, key, type, payload, headers, content_type, created_at,
    state, next_attempt_at
)
SELECT
    :route, o.seq, (given.pair ->> 1)::int, o.id, o.topic, o.key, o.type,
    coalesce(o.payload_binary, convert_to(o.payload, 'UTF8')),
    o.headers, o.content_type, o.created_at,
    'retrying', CASE WHEN o.key IS NULL THEN clock_timestamp() END
FROM json_array_elements(:rows::json) AS given (pair)
JOIN posthaste.outbox AS o ON o.seq = (given.pair ->> 0)::int8
ON CONFLICT (route, seq) DO NOTHING
