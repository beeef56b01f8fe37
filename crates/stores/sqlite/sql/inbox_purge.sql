-- inbox_purge: forgets up to :limit ids of consumer :consumer that were recorded more than :window microseconds ago.
-- Concurrency: in a transaction of its own. Index: posthaste_inbox_at.
DELETE FROM posthaste_inbox
WHERE consumer = :consumer AND id IN (
    SELECT id
    FROM posthaste_inbox
    WHERE consumer = :consumer AND at < unixepoch('subsec') - :window / 1000000.0
    ORDER BY at
    LIMIT :limit)
