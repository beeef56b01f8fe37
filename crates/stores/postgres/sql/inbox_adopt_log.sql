-- inbox_adopt_log: consumer `:consumer` accepts log `:log` of source `:source` for any topic, by whom `:by`
-- says, where it knows another log of the source.
-- Concurrency: a plain INSERT. Index: inbox_log_pkey.
INSERT INTO posthaste.inbox_log (consumer, source, log, accepted_by)
SELECT :consumer, :source, :log, :by
WHERE EXISTS (
    SELECT 1
    FROM posthaste.inbox_log
    WHERE consumer = :consumer AND source = :source
)
ON CONFLICT DO NOTHING
