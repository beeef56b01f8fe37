-- purge_rewinds: forgets rewinds that were noticed a month ago.
-- Concurrency: nobody else writes these rows again. Index: none, a row for each incident.
DELETE FROM posthaste.rewind
WHERE at <= clock_timestamp() - interval '30 days'
