-- session_is_writable: whether this session takes writes, for target_session_attrs.
-- Concurrency: reads settings. Index: none.
SELECT NOT (pg_is_in_recovery() OR current_setting('transaction_read_only')::bool)
