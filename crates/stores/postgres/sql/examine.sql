-- examine: settings and circumstances that doctor judges; ages in microseconds.
-- Concurrency: reads. Index: the catalogue's; outbox statistics are estimates.
SELECT
    current_setting('server_version_num')::int,
    current_setting('server_version'),
    current_setting('server_encoding'),
    current_setting('fsync')::bool,
    current_setting('full_page_writes')::bool,
    current_setting('synchronous_commit'),
    current_setting('default_transaction_isolation'),
    pg_is_in_recovery(),
    (SELECT relpersistence = 'p' FROM pg_class WHERE oid = 'posthaste.outbox'::regclass),
    (
        SELECT seqcache
        FROM pg_sequence
        WHERE seqrelid = pg_get_serial_sequence('posthaste.outbox', 'seq')::regclass
    ),
    (
        SELECT (extract(epoch FROM clock_timestamp() - min(xact_start)) * 1000000)::int8
        FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND datname = current_database()
    ),
    (
        SELECT (extract(epoch FROM clock_timestamp() - min(prepared)) * 1000000)::int8
        FROM pg_prepared_xacts
        WHERE database = current_database()
    ),
    (
        SELECT coalesce(max(n_dead_tup), 0)
        FROM pg_stat_user_tables
        WHERE schemaname = 'posthaste'
    )
