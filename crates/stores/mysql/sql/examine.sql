-- examine: settings of the server that doctor judges; not every server has each of them.
-- Concurrency: reads. Index: none.
SHOW GLOBAL VARIABLES
WHERE Variable_name IN (
    'version',
    'read_only',
    'super_read_only',
    'sql_mode',
    'transaction_isolation',
    'tx_isolation',
    'innodb_flush_log_at_trx_commit',
    'innodb_doublewrite',
    'innodb_autoinc_lock_mode',
    'log_bin',
    'sync_binlog',
    'binlog_format',
    'max_allowed_packet')
