-- end_relays: ends the sessions of relays, which are dead by now. A session whose program was killed
-- would finish its statement when the lock is gone, which one on a machine that is gone could not.
SELECT count(pg_terminate_backend(pid))
FROM pg_stat_activity
WHERE application_name = 'posthaste' AND datname = current_database()
