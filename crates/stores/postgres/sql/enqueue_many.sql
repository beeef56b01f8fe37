-- enqueue_many: messages in the order given, in the caller's transaction. Every parameter is an array with
-- an item for each message: `:id :topic :key :type :payload :headers :content_type`.
-- Concurrency: a plain INSERT; waits for nobody. Index: writes outbox_pkey and outbox_late.
INSERT INTO posthaste.outbox (id, topic, key, type, payload_binary, headers, content_type)
SELECT id, topic, key, type, payload, headers::json, content_type
FROM unnest(
    :id::uuid[], :topic::text[], :key::text[], :type::text[], :payload::bytea[], :headers::text[],
    :content_type::text[]
) AS message (id, topic, key, type, payload, headers, content_type)
