-- purge_rewinds: forgets rewinds that were noticed a month ago.
-- Concurrency: in the cleaner's transaction. Index: none, a row for each incident.
DELETE FROM posthaste_rewind
WHERE at <= unixepoch('subsec') - 2592000
