-- read_log: the identity of a route's log, and the server's timeline: another one after a standby was
-- promoted or a backup rolled forward, where seqs that were lost may be handed out again.
-- Concurrency: reads. Index: identity_pkey.
SELECT log, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
FROM posthaste.identity
WHERE route = $1
