-- end_waiting: ends sessions of relays that wait for a lock. A session whose program was killed would
-- finish its statement when the lock is gone, which a machine that is gone could not.
SELECT count(pg_terminate_backend(pid))
FROM pg_stat_activity
WHERE application_name = 'posthaste' AND wait_event_type = 'Lock' AND datname = current_database()
