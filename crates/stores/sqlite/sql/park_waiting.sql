-- park_waiting: puts rows of the log aside, at time ?3, for a route that takes their topics only
-- now; ?2 is a JSON array of [seq, bucket, topic, key]. One that is there already stays as it is. Who
-- of a key is tried first is settled afterwards (order_keys).
-- Topic and key are given because what is no text in them has been replaced, as settle_park has it.
-- Concurrency: in the transaction that changes the route's topics. Index: primary key (one lookup a
-- row).
INSERT INTO posthaste_parked (
    route, seq, bucket, id, topic, key, type, headers, content_type, created_at,
    state, blocks, attempts, unknowns,
    parked_at, state_at, next_attempt_at, payload)
SELECT
    ?1,
    outbox.seq,
    json_extract(waiting.value, '$[1]'),
    lower(outbox.id),
    json_extract(waiting.value, '$[2]'),
    json_extract(waiting.value, '$[3]'),
    outbox.type,
    outbox.headers,
    outbox.content_type,
    outbox.created_at,
    'retrying',
    0,
    0,
    0,
    ?3,
    ?3,
    CASE WHEN outbox.key IS NULL THEN ?3 END,
    CAST(outbox.payload AS BLOB)
FROM json_each(?2) AS waiting
CROSS JOIN posthaste_outbox AS outbox ON outbox.seq = json_extract(waiting.value, '$[0]')
WHERE true
ON CONFLICT (route, seq) DO NOTHING
