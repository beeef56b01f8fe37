-- inbox_adopt_log: log :log of source :source for consumer :consumer, accepted by :by, where another one is known.
-- Concurrency: in a transaction of its own. Index: primary key.
INSERT INTO posthaste_inbox_log (consumer, source, log, accepted_by)
SELECT :consumer, :source, :log, :by
WHERE EXISTS (
    SELECT 1
    FROM posthaste_inbox_log
    WHERE consumer = :consumer AND source = :source)
ON CONFLICT DO NOTHING
