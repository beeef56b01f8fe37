-- inbox_accept_log: consumer `:consumer` accepts log `:log` of source `:source` for topic `:topic`, if it
-- is the topic's first log and not accepted for any topic.
-- Concurrency: with inbox_lock_logs held. Index: inbox_log_pkey.
INSERT INTO posthaste.inbox_log (consumer, source, log, topic)
SELECT :consumer, :source, :log, :topic
WHERE NOT EXISTS (
    SELECT 1
    FROM posthaste.inbox_log
    WHERE consumer = :consumer
        AND source = :source
        AND (topic = :topic OR (topic = '' AND log = :log))
)
