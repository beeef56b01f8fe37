-- inbox_purge: forgets ids of consumer ? that were recorded more than ? microseconds ago, ? at most.
-- Concurrency: nobody else touches them but another cleaner. Index: posthaste_inbox_at.
DELETE FROM posthaste_inbox
WHERE consumer = ? AND at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
ORDER BY at
LIMIT ?
