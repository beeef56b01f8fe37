-- purge_rewinds: forgets rewinds that were noticed a month ago.
-- Concurrency: rows that nobody writes any more. Index: none, a row for each incident.
DELETE FROM posthaste_rewind
WHERE at <= UTC_TIMESTAMP(6) - INTERVAL 30 DAY
