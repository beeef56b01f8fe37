-- enqueue_many: messages in the order given, in the caller's transaction.
-- Concurrency: a plain INSERT; waits for nobody. Index: writes outbox_pkey and outbox_late.
INSERT INTO posthaste.outbox (id, topic, key, type, payload_binary, headers, content_type)
SELECT id, topic, key, type, payload, headers::json, content_type
FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::text[]
) AS message (id, topic, key, type, payload, headers, content_type)
