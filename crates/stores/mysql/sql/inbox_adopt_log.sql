-- inbox_adopt_log: :by accepts log :log of source :source for consumer :consumer, where another log of
-- the source is known.
-- Concurrency: a plain INSERT. Index: primary key.
INSERT IGNORE INTO posthaste_inbox_log (consumer, source, log, accepted_by)
SELECT :consumer, :source, UNHEX(REPLACE(:log, '-', '')), :by
FROM DUAL
WHERE EXISTS (
    SELECT 1
    FROM posthaste_inbox_log AS known
    WHERE known.consumer = :consumer AND known.source = :source)
