-- park_waiting: puts rows of the log aside for a route that takes their topics only now. :rows is a JSON array
-- of [seq, bucket], :keys one of their keys, in which what is no text has been replaced, as settle_park has
-- it. One that is there already stays as it is. Who of a key is tried first is settled afterwards
-- (order_keys).
-- Concurrency: in the transaction that changes the route's topics. Index: primary key (one lookup a
-- row).
INSERT INTO posthaste_parked (
    route, seq, bucket, id, topic, key, type, headers, content_type, created_at,
    state, blocks, attempts, unknowns,
    parked_at, state_at, next_attempt_at, payload)
SELECT
    :route,
    outbox.seq,
    json_extract(waiting.value, '$[1]'),
    lower(outbox.id),
    outbox.topic,
    json_extract(:keys, '$[' || waiting.key || ']'),
    outbox.type,
    outbox.headers,
    outbox.content_type,
    outbox.created_at,
    'retrying',
    0,
    0,
    0,
    unixepoch('subsec'),
    unixepoch('subsec'),
    CASE WHEN outbox.key IS NULL THEN unixepoch('subsec') END,
    CAST(outbox.payload AS BLOB)
FROM json_each(:rows) AS waiting
CROSS JOIN posthaste_outbox AS outbox ON outbox.seq = json_extract(waiting.value, '$[0]')
WHERE true
ON CONFLICT (route, seq) DO NOTHING
