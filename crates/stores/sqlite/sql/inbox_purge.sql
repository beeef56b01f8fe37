-- inbox_purge: forgets up to ?3 ids of consumer ?1 that were recorded more than ?2 seconds ago.
-- Concurrency: in a transaction of its own. Index: posthaste_inbox_at.
DELETE FROM posthaste_inbox
WHERE consumer = ?1 AND id IN (
    SELECT id
    FROM posthaste_inbox
    WHERE consumer = ?1 AND at < unixepoch('subsec') - ?2
    ORDER BY at
    LIMIT ?3)
