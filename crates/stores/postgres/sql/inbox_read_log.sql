-- inbox_read_log: whether consumer `:consumer` accepts log `:log` of source `:source` for topic `:topic`,
-- or for any.
-- Concurrency: reads. Index: inbox_log_pkey.
SELECT EXISTS (
    SELECT 1
    FROM posthaste.inbox_log
    WHERE consumer = :consumer
        AND source = :source
        AND topic IN (:topic, '')
        AND log = :log
)
