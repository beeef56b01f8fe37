-- check_server: whether writes are refused, and whether this is the server the positions are of.
-- Concurrency: reads. Index: meta_pkey.
SELECT
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
    (SELECT value FROM posthaste.meta WHERE key = 'system_identifier')
        IS NOT DISTINCT FROM (SELECT system_identifier::text FROM pg_control_system())
