-- inbox_purge: forgets ids of consumer :consumer that were recorded longer than :window ago, :limit at
-- most.
-- Concurrency: nobody else touches them but another cleaner. Index: posthaste_inbox_at.
DELETE FROM posthaste_inbox
WHERE consumer = :consumer AND at < UTC_TIMESTAMP(6) - INTERVAL :window MICROSECOND
ORDER BY at
LIMIT :limit
