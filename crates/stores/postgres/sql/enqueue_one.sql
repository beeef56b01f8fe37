-- enqueue_one: one message, in the caller's transaction.
-- Concurrency: a plain INSERT; waits for nobody. Index: writes outbox_pkey and outbox_late.
INSERT INTO posthaste.outbox (id, topic, key, type, payload_binary, headers, content_type)
VALUES (:id, :topic, :key, :type, :payload, :headers::text::json, :content_type)
