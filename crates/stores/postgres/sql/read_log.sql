-- read_log: the name of the log of route `:route`, and the server's timeline: another one after a standby
-- was promoted or a backup rolled forward, where seqs that were lost may be handed out again.
-- Concurrency: reads. Index: identity_pkey.
SELECT
    log,
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
FROM posthaste.identity
WHERE route = :route
