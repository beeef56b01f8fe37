-- enqueue: the head of the one statement that enqueues all messages; a row of values for each is
-- added in order, so seq ascends in that order.
-- Concurrency: in the caller's transaction; a plain INSERT, waits for nobody. Index: primary key.
INSERT INTO posthaste_outbox (id, topic, `key`, `type`, headers, content_type, payload)
